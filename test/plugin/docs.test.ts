import { describe, expect, test } from "bun:test";
import { mkdirSync, readFileSync, symlinkSync } from "node:fs";
import { join, resolve } from "node:path";
import { contractSource } from "../../src/cli/files/contract-source.ts";
import { eventOf } from "../../src/kernel/llm/answer-reader.ts";
import { startProgram } from "../../src/os/channel.ts";
import { PluginHost } from "../../src/plugin/host/host.ts";
import { SERVICES } from "../../src/plugin/host/wire.ts";
import { CODES } from "../../src/plugin/index.ts";
import { testContext } from "../support/conformance/context.ts";
import { exchange } from "../support/conformance/vfs-file.ts";
import { PATIENT } from "./support/patience.ts";
import { Scratch } from "./support/scratch.ts";

const ROOT = resolve(import.meta.dir, "../..");
const text = readFileSync(join(ROOT, "docs/plugins.md"), "utf8");

/** The code block after the mark `<!-- example: NAME -->`. */
function example(name: string): string {
  const [, code] = new RegExp(`<!-- example: ${name} -->\n\`\`\`ts\n([^]*?)\n\`\`\``).exec(text) ?? [];
  if (code === undefined) throw new Error(`docs/plugins.md has no example ${name}.`);
  return code;
}

describe("docs/plugins.md", () => {
  test("shows a plugin that loads and answers, with its default and with its settings", async () => {
    using scratch = new Scratch();
    const file = scratch.write("project/plugins/weather.ts", example("weather.ts"));
    const host = new PluginHost({
      start: startProgram,
      configDir: join(scratch.dir, "user"),
      beside: null,
      limits: PATIENT,
    });
    try {
      expect(await host.check(file, () => true)).toMatchObject({
        ok: true,
        problems: [],
        warnings: [],
        needs: ["store"],
      });
      const dir = join(scratch.dir, "project");
      for (const [settings, answer] of [
        [{}, "Ulm: sunny, 21 °C"],
        [{ weather: { unit: "F" } }, "Ulm: sunny, 70 °F"],
      ] as const) {
        const lease = await host.lease({ id: "p", dir, kind: "rnix", isTrusted: () => true, settings });
        expect(lease.notices).toEqual([]);
        const { entry } = lease.namespace.resolve("/dev/weather");
        const lines: object[] = [];
        const append = async (_scope: string, _log: string, line: object) => void lines.push(line);
        const store = {
          append,
          read: async () => null,
          remove: async () => undefined,
          replace: async () => "",
          path: async () => "",
          lines: async () => [],
        };
        const { context, notes } = testContext(dir, { store, config: entry.config });
        const opened = await entry.device.factory("", 2, context);
        expect(await exchange(opened, '{"op":"Weather","place":"Ulm"}')).toBe(answer);
        await opened.close();
        lease.release();
        expect(lines).toEqual([{ place: "Ulm" }]);
        expect(notes.progress).toEqual(["looking at the sky over Ulm"]);
      }
    } finally {
      await host.close();
    }
  });

  const files = ["words.ts", "countdown.ts", "issue.ts", "times.ts", "weather.ts", "acme.ts"];

  test("shows plugins that load and that the compiler accepts", async () => {
    using scratch = new Scratch();
    const host = new PluginHost({
      start: startProgram,
      configDir: scratch.dir,
      beside: null,
      limits: PATIENT,
    });
    try {
      for (const name of files) {
        const report = await host.check(scratch.write(name, example(name)), () => true);
        expect(report).toMatchObject({ ok: true, problems: [], warnings: [] });
      }
    } finally {
      await host.close();
    }
    expect(typeErrors(scratch)).toBe("");
  });

  test("shows a test file that passes for the device it shows", () => {
    using scratch = new Scratch();
    mkdirSync(join(scratch.dir, "node_modules"));
    symlinkSync(ROOT, join(scratch.dir, "node_modules/rnix"));
    const entry = scratch.write("weather.ts", example("weather.ts"));
    const shown = example("weather.test.ts")
      .replace("../../plugins/weather.ts", entry)
      .replace("../support/", `${ROOT}/test/support/`)
      .replace("  operations:", `  entry: "${entry}",\n  operations:`);
    const file = scratch.write("weather.test.ts", shown);
    const { exitCode, stderr } = Bun.spawnSync([process.execPath, "test", file], { cwd: scratch.dir });
    expect(exitCode, stderr.toString()).toBe(0);
  });

  test("begins with a whole plugin of at most 8 lines", () => {
    expect(text.indexOf("<!-- example: words.ts -->")).toBeLessThan(text.indexOf("\n## "));
    expect(example("words.ts").split("\n").length).toBeLessThanOrEqual(8);
  });

  test("names every code, service and field of the contract", () => {
    const contract = contractSource();
    const wanted = [
      "ToolSpec",
      "Plugin",
      "Device",
      "MountType",
      "Mounted",
      "ToolDef",
      "ToolAnnotations",
      "OpenContext",
      "ExecRequest",
      "ExitInfo",
      "Child",
      "Store",
      "History",
      "RunInfo",
      "VFSFile",
      "FileStat",
    ];
    const fields = wanted.flatMap((name) => fieldsOf(contract, name));
    expect(fields.length).toBeGreaterThan(50);
    const missing = [...CODES, ...SERVICES, ...fields].filter(
      (word) => !new RegExp(`[\`.(,{ ]${word}\\b`).test(text),
    );
    expect(missing).toEqual([]);
  });
});

/** The names of an interface's own fields and methods. */
function fieldsOf(source: string, name: string): string[] {
  const [, body] = new RegExp(`^export interface ${name}\\b[^{]*\\{\n([^]*?)^\\}`, "m").exec(source) ?? [];
  if (body === undefined) throw new Error(`The contract has no interface ${name}.`);
  return [...body.matchAll(/^ {2}(?:readonly )?(\w+)\??[(:]/gm)].map((match) => match[1] ?? "");
}

/** What tsc reports for the folder's sources with the contract that `rnix plugins new` writes; "" for nothing. */
function typeErrors(scratch: Scratch): string {
  const compilerOptions = {
    target: "ESNext",
    module: "Preserve",
    moduleResolution: "bundler",
    strict: true,
    noEmit: true,
    types: [],
    lib: ["ESNext", "DOM"],
    allowImportingTsExtensions: true,
    paths: { "rnix/plugin": [scratch.write("types/plugin.ts", contractSource())] },
  };
  scratch.write("tsconfig.json", JSON.stringify({ compilerOptions }));
  const tsc = join(ROOT, "node_modules/.bin/tsc");
  return Bun.spawnSync([process.execPath, "--bun", tsc, "-p", scratch.dir]).stdout.toString();
}

test("each event of a model driver is shown as the kernel reads it", () => {
  const [, table = ""] = /<!-- events: LLMEvent -->([\s\S]*?)<!-- \/events -->/.exec(text) ?? [];
  const shown = [...table.matchAll(/`(\{"type".*?\})`/g)].flatMap(([, event]) => event ?? []);
  expect(shown.length).toBe(8);
  for (const event of shown) expect([event, eventOf(event).type]).toEqual([event, JSON.parse(event).type]);
});
