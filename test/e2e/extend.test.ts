/** Follows the table "Where do I add …" of docs/architecture.md: adds one of each, builds, and uses them. */

import { expect, test } from "bun:test";
import {
  appendFileSync,
  cpSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { writeKeys } from "./support/keys-file.ts";
import { Machine } from "./support/machine.ts";
import { calls, says } from "./support/scenes.ts";
import { RawClient } from "./support/wire.ts";

const ROOT = resolve(import.meta.dir, "../..");
const BUILT_FROM = ["src", "plugins", "agents", "skills", "build.ts", "package.json", "tsconfig.json"];

/** A copy of the sources. It counts the files that an addition touches. */
class Checkout implements Disposable {
  readonly folder = realpathSync(mkdtempSync(join(tmpdir(), "rnix-extend-")));
  #touched = new Set<string>();

  constructor() {
    for (const part of BUILT_FROM) cpSync(join(ROOT, part), join(this.folder, part), { recursive: true });
    symlinkSync(join(ROOT, "node_modules"), join(this.folder, "node_modules"));
  }

  /** Makes a file. */
  add(path: string, text: string): void {
    this.#touched.add(path);
    writeFileSync(join(this.folder, path), text, { flag: "wx" });
  }

  /** Inserts a line after the first line that contains `after`; an import goes to the top. */
  insert(path: string, after: string, line: string, imported?: string): void {
    this.#touched.add(path);
    const file = join(this.folder, path);
    const lines = readFileSync(file, "utf8").split("\n");
    const at = lines.findIndex((one) => one.includes(after));
    expect(at, `${path} has a line with ${after}`).toBeGreaterThan(-1);
    lines.splice(at + 1, 0, line);
    writeFileSync(file, lines.join("\n"));
    if (imported !== undefined) appendFileSync(file, `${imported}\n`);
  }

  /** Returns the files touched since the last call. */
  touched(): string[] {
    const touched = [...this.#touched];
    this.#touched = new Set();
    return touched;
  }

  build(): string {
    const outfile = join(this.folder, "rnix");
    const { exitCode, stderr } = Bun.spawnSync([process.execPath, "build.ts", "--outfile", outfile], {
      cwd: this.folder,
    });
    expect(exitCode, stderr.toString()).toBe(0);
    return outfile;
  }

  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** The code paths in the row's second column. */
function filesOf(what: string): string[] {
  const table = readFileSync(join(ROOT, "docs/architecture.md"), "utf8");
  const row = table.split("\n").find((line) => line.startsWith(`| ${what} |`));
  const files = row?.split("|")[2] ?? "";
  return [...files.matchAll(/`((?:src|plugins)\/[^`]*)`/g)].flatMap(([, path]) => path ?? []);
}

/** Each changed file is named by the row or is in a folder of it; everything that the row names is changed. */
function expectAsDocumented(what: string, touched: string[]): void {
  const named = filesOf(what);
  expect(touched).toHaveLength(named.length);
  for (const path of touched) expect(named.some((one) => path.startsWith(one))).toBe(true);
  for (const one of named) expect(touched.some((path) => path.startsWith(one))).toBe(true);
}

test("adding a driver, a kernel tool, a command, a method, a setting, an option of runs or of jobs, or an event changes the files that the table names", async () => {
  using checkout = new Checkout();

  checkout.add(
    "plugins/echo.ts",
    `import { defineTool } from "rnix/plugin";
export default defineTool({
  name: "Echo",
  description: "Repeat a text.",
  input: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
  run: ({ text }) => \`echo: \${text}\`,
});
`,
  );
  expectAsDocumented("a driver or a tool", checkout.touched());

  checkout.add(
    "src/kernel/devices/own-pid.ts",
    `/** The tool OwnPid, which returns the PID of the process. */
import type { KernelTool } from "./tool-device.ts";
export const ownPid: KernelTool = {
  path: "/dev/kernel/own_pid",
  tool: { name: "OwnPid", description: "Return your PID.", input: { type: "object", properties: {} } },
  run: ({ proc }) => String(proc.pid),
};
`,
  );
  checkout.insert(
    "src/kernel/devices/kernel-tools.ts",
    "const all = [",
    "    ownPid,",
    'import { ownPid } from "./own-pid.ts";',
  );
  expectAsDocumented("a kernel tool", checkout.touched());

  checkout.add(
    "src/server/methods/greet.ts",
    `import { z } from "zod";
import { method } from "./method.ts";
/** Greets. */
export const greet = method({
  payload: () => z.object({ name: z.string() }),
  handle: async ({ name }): Promise<{ text: string }> => ({ text: \`hello \${name}\` }),
});
`,
  );
  checkout.insert(
    "src/server/methods/method-table.ts",
    "export const METHODS = {",
    '  greet: async () => (await import("./greet.ts")).greet,',
  );
  expectAsDocumented("a method", checkout.touched());

  checkout.add(
    "src/cli/commands/greet.ts",
    `import { defineCommand } from "../command.ts";
import { EXIT } from "../exit.ts";
import { withWire } from "../io.ts";
export default defineCommand({
  about: "Greet by the daemon",
  args: [{ name: "NAME", about: "who is greeted" }],
  examples: { "rnix greet you": "prints hello you" },
  run: (io, _flags, [name = ""]) =>
    withWire(io, async (wire) => {
      const { text } = await wire.request("greet", { name });
      io.stdout.write(\`\${text}\\n\`);
      return EXIT.ok;
    }),
});
`,
  );
  checkout.insert(
    "src/cli/commands.ts",
    "export const COMMANDS",
    '  greet: { group: "Set up", load: () => import("./commands/greet.ts") },',
  );
  expectAsDocumented("a command", checkout.touched());

  checkout.insert(
    "src/options/settings.ts",
    "export const SETTINGS = {",
    '  patience: run("duration", 5 * MIN, "how long it waits"),',
  );
  expectAsDocumented("a setting", checkout.touched());

  checkout.insert(
    "src/options/run-options.ts",
    "export const RUN_OPTIONS = {",
    `  fervor: {
    kind: "count", hint: "N", setting: run("count", 3, "how eager it is"), agent: true, process: true,
    inherited: true, recorded: "options", shown: "fervor", help: { spawn: "how eager it is" },
  },
  restraint: {
    kind: "count", hint: "N", setting: run("count", null, "how restrained it is"), agent: true, process: true,
    inherited: true, recorded: "options", shown: "restraint", help: { spawn: "how restrained it is" },
  },`,
  );
  expectAsDocumented("a run option", checkout.touched());

  checkout.insert(
    "src/plugin/job-options.ts",
    "export const JOB_OPTIONS = {",
    '  calm: { kind: "age", help: "how calm it is", policy: true, tool: { type: "string" } },',
  );
  checkout.insert("src/cron/job.ts", "const Fields = {", "  calm: Duration.optional(),");
  expectAsDocumented("an option of jobs", checkout.touched());

  checkout.insert(
    "src/run/step-schema.ts",
    'z.object({ t: z.literal("waiting"),',
    '  z.object({ t: z.literal("hint"), ...Entry, text: z.string() }),',
  );
  checkout.insert(
    "src/kernel/loop/step.ts",
    "if (!this.#isServed) this.#answered(ts, message, answer);",
    '    recordOrFail(() => proc.record.journal({ t: "hint", step: proc.run.step, ts, text: "look here" }));',
  );
  checkout.insert(
    "src/kernel/events/log-entry.ts",
    "switch (event.t) {",
    '    case "hint": return [textEntry(at, "text", event.text)];',
  );
  expectAsDocumented("an event of a run", checkout.touched());

  const rnix = checkout.build();
  await using machine = new Machine();
  machine.write(".rnix/config.yaml", "patience: 7m\n");
  const run = (...args: string[]) => machine.run(args, { rnix });
  expect((await run("greet", "you")).stdout).toBe("hello you\n");
  expect((await run("greet", "--help")).stdout).toContain("who is greeted");
  expect((await run("--help")).stdout).toContain("Greet by the daemon");
  expect((await run("tools")).stdout).toMatch(/^Echo .*\n(.*\n)*OwnPid /m);
  expect((await run("config")).stdout).toMatch(/patience.*5m/);

  // The new option comes from a flag, an agent or a setting. A child inherits or narrows it, and a resume restores it.
  await machine.play({
    parent: [calls(["Agent", { intent: "child" }]), says("done"), says("again")],
    child: [says("helped")],
    narrow: [calls(["Agent", { intent: "below", agent: "eager" }]), says("done")],
    below: [says("helped")],
    plain: [says("done")],
    eager: [says("done")],
  });
  machine.write(".rnix/config.yaml", "fervor: 2\n");
  machine.write(
    join(machine.configDir, "agents/eager/agent.yaml"),
    "name: eager\ndescription: Eager.\nfervor: 5\n",
  );
  machine.write(join(machine.configDir, "agents/eager/instructions.md"), "Be eager.\n");
  const shown = async (...args: string[]) => {
    const { code, stderr } = await run(...args, "--no-daemon");
    expect(code, stderr).toBe(0);
    const all = JSON.parse((await run("ps", "-a", "--json")).stdout) as { intent: string; options: object }[];
    return Object.fromEntries(all.map(({ intent, options }) => [intent, Reflect.get(options, "fervor")]));
  };
  expect(await shown("spawn", "plain")).toEqual({ plain: 2 });
  expect(await shown("spawn", "eager", "--agent", "eager")).toMatchObject({ eager: 5 });
  expect(await shown("spawn", "parent", "--fervor", "7")).toMatchObject({ parent: 7, child: 7 });
  expect(await shown("spawn", "narrow", "--fervor", "3")).toMatchObject({ narrow: 3, below: 3 });
  const parent = (await run("ps", "-a")).stdout.match(/^ *(\d+).* parent/m)?.[1] ?? "";
  expect(await shown("resume", parent, "go on")).toMatchObject({ parent: 7 });
  expect((await run("show", parent)).stdout).toMatch(/fervor +7/);

  // The new option of jobs comes from a flag or the tool; the service checks and stores it.
  await machine.play({
    planner: [calls(["CronCreate", { name: "own", intent: "x", every: "1h", calm: "2h" }]), says("done")],
  });
  writeKeys(machine);
  machine.write(
    join(machine.configDir, "agents/planner/agent.yaml"),
    "name: planner\ndescription: Plans.\nallowed_tools: [CronCreate]\n",
  );
  machine.write(join(machine.configDir, "agents/planner/instructions.md"), "Plan.\n");
  const job = ["cron", "add", "@every 1h", "x", "--name", "mine", "--calm"];
  expect((await run(...job, "soon")).code).toBe(64);
  expect((await run(...job, "3h")).code).toBe(0);
  expect((await run("spawn", "planner", "--agent", "planner")).code).toBe(0);
  expect(JSON.parse((await run("cron", "list", "--json")).stdout)).toMatchObject([
    { name: "mine", calm: "3h" },
    { name: "own", calm: "2h" },
  ]);
  expect((await run("cron", "show", "own")).stdout).toMatch(/policies +calm 2h/);

  // The new event is in the log of the ended run, in what a search finds, and in the stream of its events.
  expect((await run("log", parent)).stdout).toContain("look here");
  expect((await run("memory", "search", "look", "here")).stdout).toContain("look here");
  const client = await RawClient.connect(machine.socket);
  await client.ask("run_events", { pid: Number(parent), cwd: machine.project });
  const events = [await client.line()];
  while (events.at(-1)?.type === "run_event") events.push(await client.line());
  client.destroy();
  expect(events).toContainEqual(
    expect.objectContaining({ payload: expect.objectContaining({ t: "hint", step: 1, title: "look here" }) }),
  );
});
