import { expect, test } from "bun:test";
import { mkdirSync, readFileSync, symlinkSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import type { JobInfo, LedgerRow } from "../../../src/plugin/index.ts";
import { until } from "../../support/until.ts";
import { binary } from "../support/binary.ts";
import { ledgerOf } from "../support/cron-machine.ts";
import { Machine } from "../support/machine.ts";
import { Running } from "../support/running.ts";
import { says } from "../support/scenes.ts";

const DOCUMENT = readFileSync(resolve(import.meta.dir, "../../../docs/unattended.md"), "utf8");
const HEADING = "## A nightly agent, from an empty machine\n";

/** The commands of the section, a block each. */
function blocks(): string[] {
  const begin = DOCUMENT.indexOf(HEADING);
  const section = DOCUMENT.slice(begin, DOCUMENT.indexOf("\n## ", begin + HEADING.length));
  return [...section.matchAll(/```sh\n([\s\S]*?)```/g)].map(([, body = ""]) => body);
}

/** A user's shell: an empty home, `rnix` on the path, a key in its environment. */
async function shell(
  machine: Machine,
  script: string,
): Promise<{ stdout: string; stderr: string; code: number | null }> {
  const bin = join(machine.project, "bin");
  mkdirSync(bin, { recursive: true });
  try {
    symlinkSync(binary(), join(bin, "rnix"));
  } catch {
    // It is there already.
  }
  const env = { ...machine.env, PATH: `${bin}:${machine.env.PATH}` };
  return new Running({ argv: ["/bin/bash", "-ec", script], cwd: machine.project, env }).done;
}

async function json<T>(machine: Machine, cwd: string, ...args: string[]): Promise<T> {
  const { stdout, stderr, code } = await machine.run([...args, "--json"], { cwd });
  if (code !== 0) throw new Error(`rnix ${args.join(" ")}: ${code}: ${stderr}`);
  const value: T = JSON.parse(stdout);
  return value;
}

test.concurrent("from an empty machine to a nightly agent that survives restarts and kill -9, as the document says", async () => {
  await using machine = new Machine();
  // Files of the project's folder may stay.
  machine.env.HOME = machine.project;
  await machine.play({ "update the dependencies": [says("Updated two packages.\nAll tests pass.")] });
  // The document's model is OpenAI's own; here its address leads to the scripted one.
  const env = join(machine.configDir, "env");
  mkdirSync(dirname(env), { recursive: true });
  await shell(machine, `umask 077; echo "OPENAI_BASE_URL=${machine.env.OPENAI_BASE_URL}" > ${env}`);
  for (const name of ["RNIX_PROVIDER", "RNIX_MODEL", "OPENAI_BASE_URL"]) delete machine.env[name];
  // Its settings are below HOME, as on an empty machine.
  const links = `mkdir -p ~/.config; ln -s ${machine.configDir} ~/.config/rnix`;
  await shell(machine, links);
  let said = "";
  for (const block of blocks()) {
    const { stdout, stderr, code } = await shell(machine, block);
    said += stdout + stderr;
    if (code !== 0) throw new Error(`${block}\nended with ${code}:\n${stdout}${stderr}`);
  }
  expect(said).toContain("Updated two packages.");
  expect(said).toMatch(
    /job nightly\n {2}0 3 \* \* 1-5 \([\w/+-]+\)\n(?: {2}\w{3} \d{4}-\d\d-\d\d 03:00 {2}in .*\n){5}/,
  );
  expect(said).toContain("ExecStart=");
  expect(said).toMatch(/keys of jobs.*: found without a shell/);
  expect(said).toMatch(/Since \w{3} .* 18:00: /);

  const shop = join(machine.project, "shop");
  const rowsOf = async (name: string) => (await ledgerOf(shop)).filter(({ job }) => job === name);
  await until(
    async () =>
      (await rowsOf("nightly")).every(
        ({ state, delivery }) => state === "ran" && delivery?.[0]?.state === "delivered",
      ),
    "its run",
  );
  expect(await json<LedgerRow[]>(machine, shop, "cron", "history", "nightly")).toMatchObject([
    { extra: true, state: "ran", delivery: [{ state: "delivered" }] },
  ]);
  expect(readFileSync(join(machine.project, "reports/nightly.md"), "utf8")).toBe(
    "Updated two packages.\nAll tests pass.\n",
  );

  // The same agent every second, through a restart and a kill: nothing is lost and nothing runs twice.
  await json(
    machine,
    shop,
    "cron",
    "add",
    "@every 1s",
    "update the dependencies",
    "--name",
    "often",
    "--provider",
    "openai",
    "--overlap",
    "queue",
    "--misfire",
    "all",
  );
  const ran = async (count: number) =>
    (await rowsOf("often")).filter(({ state }) => state === "ran").length >= count;
  await until(() => ran(1), "a run");
  await machine.ok(["daemon", "restart"], { cwd: shop });
  await until(() => ran(2), "runs after the restart");
  machine.killDaemon();
  // Whatever starts the daemon again: here a command, after a reboot the service.
  await machine.ok(["cron", "list"], { cwd: shop });
  await until(() => ran(3), "runs after the kill");
  await machine.ok(["cron", "disable", "often"], { cwd: shop });
  await until(
    async () => (await rowsOf("often")).every(({ state }) => !["due", "running"].includes(state)),
    "the end of all",
  );
  const all = await json<LedgerRow[]>(machine, shop, "cron", "history", "often", "--limit", "500");
  const [first] = all;
  const dues = all.map(({ due }) => Date.parse(due) - Date.parse(first?.due ?? ""));
  expect(dues).toEqual(all.map((_, i) => i * 1000));
  expect(all.every(({ state, attempt }) => attempt === 1 && (state === "ran" || state === "skipped"))).toBe(
    true,
  );
  expect(new Set(all.flatMap(({ uuid }) => uuid ?? [])).size).toBe(
    all.filter(({ state }) => state === "ran").length,
  );
  expect((await json<JobInfo[]>(machine, shop, "cron", "list")).map(({ state }) => state)).toEqual([
    "enabled",
    "disabled",
  ]);
});

test.concurrent("the unit of rnix cron install is valid, is not written over another's file, and uninstall removes it", async () => {
  await using machine = new Machine();
  const path = join(dirname(machine.configDir), "systemd/user/rnix.service");
  if (process.platform !== "linux") return;
  const refused = await machine.run(["cron", "install"]);
  expect(refused).toMatchObject({ code: 64 });
  expect(refused.stderr).toContain("--yes");
  expect(machine.has(path)).toBe(false);
  // No service manager answers here: the file is written, and what is left to do is named.
  const installed = await machine.run(["cron", "install", "--yes"]);
  expect([0, 69]).toContain(installed.code ?? -1);
  expect(installed.stderr).toContain(`written: ${path}`);
  expect(machine.read(path)).toContain(`Environment="HOME=${machine.home}"`);
  if (Bun.which("systemd-analyze") !== null) {
    const checked = await shell(machine, `systemd-analyze verify --user ${path} 2>&1`);
    expect(checked.stdout).not.toContain("rnix.service:");
  }
  await machine.ok(["cron", "uninstall"]);
  expect(machine.has(path)).toBe(false);
  machine.write(path, "[Unit]\n");
  expect((await machine.run(["cron", "install", "--yes"])).code).toBe(64);
  expect(machine.read(path)).toBe("[Unit]\n");
});
