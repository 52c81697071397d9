import { expect, test } from "bun:test";
import { join, resolve } from "node:path";
import { newPlugin } from "../../src/cli/files/scaffold.ts";
import { startProgram } from "../../src/os/channel.ts";
import { PluginHost } from "../../src/plugin/host/host.ts";
import { PATIENT } from "./support/patience.ts";
import { Scratch } from "./support/scratch.ts";

const TSC = resolve(import.meta.dir, "../../node_modules/.bin/tsc");

test("the plugin that `rnix plugins new` writes loads unchanged, and compiles without a checkout", async () => {
  using scratch = new Scratch();
  const host = new PluginHost({
    start: startProgram,
    configDir: join(scratch.dir, "user"),
    beside: null,
    limits: PATIENT,
  });
  try {
    const project = {
      id: "p",
      dir: scratch.dir,
      dataDir: join(scratch.dir, ".rnix/data"),
      kind: "rnix",
    } as const;
    const report = await host.check(newPlugin(project, "jira-search", []), () => true);
    expect(report).toMatchObject({ name: "jira-search", ok: true, problems: [], warnings: [], takes: [] });
    expect(report.devices).toMatchObject([{ path: "/dev/jira-search", tools: ["JiraSearch"] }]);
    const tsc = Bun.spawnSync([process.execPath, "--bun", TSC, "-p", join(scratch.dir, ".rnix")]);
    expect(tsc.stdout.toString()).toBe("");
    expect(tsc.exitCode).toBe(0);
  } finally {
    await host.close();
  }
});
