import { describe, expect, test } from "bun:test";
import { join, resolve } from "node:path";
import { z } from "zod";
import { Machine } from "./support/machine.ts";
import { toolNames, toolResults } from "./support/requests.ts";
import { calls, says } from "./support/scenes.ts";
import { verdict } from "./support/verdict.ts";

describe("a plugin that is copied into a project", () => {
  test("is named and left out until it is trusted, also after each edit; no daemon is restarted", async () => {
    await using machine = new Machine();
    const model = await machine.play({ "ask it": [calls(["Oracle", {}]), says("asked")] });
    const file = machine.write("plugins/oracle.ts", plugin("oracle", 'answer = "first"'));

    const untrusted = await verdict(machine, ["ask it"]);
    expect(untrusted.receipt.exit_code).toBe(0);
    expect(untrusted.stderr).toContain(`Plugin oracle (${file}) is not trusted and left out. \`rnix trust\``);
    expect(toolNames(model.last)).not.toContain("Oracle");
    expect(toolResults(model.last)[0]).toStartWith("Error NOT_FOUND");
    const daemon = machine.daemonPid;

    const noTerminal = await machine.run(["trust"]);
    expect(noTerminal.code).toBe(64);
    expect(noTerminal.stderr).toContain("--yes");
    expect((await machine.run(["trust", "--show"])).stdout).toContain(file);
    await machine.ok(["trust", "--yes"]);

    const trusted = await verdict(machine, ["ask it"]);
    expect(trusted.stderr).not.toContain("not trusted");
    expect(toolResults(model.last)).toEqual(["first"]);
    expect(trusted.info.versions.oracle).toMatch(/^[0-9a-f]{12}$/);

    machine.write("plugins/oracle.ts", plugin("oracle", 'answer = "second"'));
    const edited = await verdict(machine, ["ask it"]);
    expect(edited.stderr).toContain("Plugin oracle");
    expect(edited.stderr).toContain("not trusted");
    await machine.ok(["trust", "--yes"]);
    await verdict(machine, ["ask it"]);
    expect(toolResults(model.last)).toEqual(["second"]);

    machine.remove("plugins/oracle.ts");
    await verdict(machine, ["ask it"]);
    expect(toolResults(model.last)[0]).toStartWith("Error NOT_FOUND");
    expect(machine.daemonPid).toBe(daemon);
  });

  test("of a followed folder is reloaded at the next spawn, with its imports", async () => {
    await using machine = new Machine();
    const model = await machine.play({ "ask it": [calls(["Oracle", {}]), says("asked")] });
    await machine.ok(["trust", "--follow", "--yes"]);
    const source = plugin("oracle", "answer = wisdom(await word())", [
      'import { wisdom } from "./wisdom.ts";',
      'const word = async () => (await import("a-library")).default;',
    ]);
    machine.write("plugins/oracle/index.ts", source);
    machine.write("plugins/oracle/node_modules/a-library/package.json", '{"name":"a-library","main":"i.js"}');
    machine.write("plugins/oracle/node_modules/a-library/i.js", 'export default "forty-two";');
    for (const version of ["one", "two"]) {
      machine.write(
        "plugins/oracle/wisdom.ts",
        `export const wisdom = (w: string): string => \`${version} \${w}\`;\n`,
      );
      await verdict(machine, ["ask it"]);
      expect(toolResults(model.last)).toEqual([`${version} forty-two`]);
    }
  });

  test("is used with --trust for this run alone; the user's own plugin needs no trust", async () => {
    await using machine = new Machine();
    const model = await machine.play({ "ask both": [calls(["Oracle", {}], ["Own", {}]), says("asked")] });
    machine.write("plugins/oracle.ts", plugin("oracle", 'answer = "of the project"'));
    machine.write(join(machine.configDir, "plugins", "own.ts"), plugin("own", 'answer = "of the user"'));
    await verdict(machine, ["ask both", "--trust"]);
    expect(toolResults(model.last)).toEqual(["of the project", "of the user"]);
    await verdict(machine, ["ask both"]);
    expect(toolResults(model.last)).toEqual([expect.stringContaining("NOT_FOUND"), "of the user"]);
  });

  test("that replaces a stock one is named so, and is used", async () => {
    await using machine = new Machine();
    const model = await machine.play({ "read it": [calls(["Read", { path: "x" }]), says("read")] });
    machine.write(
      "plugins/mine.ts",
      plugin("mine", 'answer = "mine"').replace('name: "Mine"', 'name: "Read"'),
    );
    expect((await machine.run(["trust", "--show"])).stdout).toMatch(/Read/);
    const { stderr } = await verdict(machine, ["read it", "--trust"]);
    expect(stderr).toContain("replaces Read");
    expect(toolResults(model.last)).toEqual(["mine"]);
  });
});

test("a plugin that does not load, throws or hangs is named with file and line; others still work", async () => {
  // On two machines side by side, because both wait for calls that never end.
  await Promise.all([brokenOnes(), hangingImport()]);
});

async function brokenOnes(): Promise<void> {
  await using machine = new Machine();
  // Of the two that hang: the others are to be well within it.
  machine.config({ tool_timeout: "3s" });
  const model = await machine.play({
    "try all": [calls(["Good", {}], ["Fails", {}], ["Busy", {}], ["Deaf", {}], ["Good", {}]), says("tried")],
  });
  const path = (name: string) => join(machine.project, "plugins", `${name}.ts`);
  machine.write(path("syntax"), 'import "rnix/plugin";\n\nexport default {{;\n');
  machine.write(path("missing"), 'import "./not-there.ts";\nexport default 1;\n');
  machine.write(path("throws"), plugin("throws", "", ['throw new Error("no moon today");']));
  machine.write(path("odd"), "export default { devices: 7 };\n");
  machine.write(path("good"), plugin("good", 'answer = "good"'));
  machine.write(path("fails"), plugin("fails", 'throw new TypeError("it is broken")'));
  machine.write(path("busy"), plugin("busy", "for (;;);"));
  machine.write(path("deaf"), plugin("deaf", "await new Promise(() => {})"));
  await machine.ok(["trust", "--follow", "--yes"]);

  const { receipt, stderr } = await verdict(machine, ["try all"]);
  expect(receipt).toMatchObject({ exit_code: 0, exit_reason: "completed", tool_calls: 5 });
  for (const place of [`${path("syntax")}:3:`, `${path("missing")}:1:`, `${path("throws")}:2:`]) {
    expect(stderr).toContain(place);
  }
  expect(stderr).toContain("no moon today");
  expect(stderr).toMatch(/odd.*broken/);

  const [good, fails, busy, deaf, again] = toolResults(model.last);
  expect([good, again]).toEqual(["good", "good"]);
  expect(fails).toStartWith("Error DRIVER");
  expect(fails).toContain("fails");
  for (const hung of [busy, deaf]) expect(hung).toStartWith("Error TIMEOUT");

  const plugins = z
    .array(Report)
    .parse(JSON.parse(await machine.until(["plugins", "--json"], /did not respond/)));
  const of = (name: string) => plugins.find((one) => one.name === name);
  for (const name of ["syntax", "missing", "throws", "odd"]) {
    expect(of(name)).toMatchObject({ state: "broken" });
    expect(of(name)?.problems).not.toEqual([]);
  }
  expect(of("syntax")?.problems[0]).toMatchObject({ file: path("syntax"), line: 3 });
  expect(of("throws")?.problems[0]).toMatchObject({ file: path("throws"), line: 2 });
  expect(of("fails")).toMatchObject({ state: "loaded", problems: [{ file: path("fails"), line: 3 }] });
  expect(of("good")).toMatchObject({ state: "loaded", problems: [] });
  expect(of("fs")).toMatchObject({ state: "loaded", source: "embedded", runs: "kernel" });
}

async function hangingImport(): Promise<void> {
  await using machine = new Machine();
  const model = await machine.play({ "try it": [calls(["Good", {}]), says("tried")] });
  const file = machine.write("plugins/hangs.ts", plugin("hangs", "", ["await new Promise(() => {});"]));
  machine.write("plugins/good.ts", plugin("good", 'answer = "good"'));
  const { receipt, stderr } = await verdict(machine, ["try it", "--trust"]);
  expect(receipt).toMatchObject({ exit_code: 0, exit_reason: "completed" });
  expect(stderr).toContain(file);
  expect(toolResults(model.last)).toEqual(["good"]);
}

test("plugins new writes a plugin that passes the check and the types, and is trusted and used", async () => {
  await using machine = new Machine();
  const model = await machine.play({
    "count it": [calls(["Jira", { text: "one two three" }]), says("counted")],
  });
  const made = await machine.run(["plugins", "new", "jira"]);
  const file = join(machine.project, ".rnix", "plugins", "jira.ts");
  expect(made).toMatchObject({ code: 0, stdout: `${file}\n` });

  const tsc = resolve(import.meta.dir, "../../node_modules/.bin/tsc");
  const typed = Bun.spawnSync([process.execPath, "--bun", tsc, "-p", join(machine.project, ".rnix")]);
  expect({ out: typed.stdout.toString(), code: typed.exitCode }).toEqual({ out: "", code: 0 });

  expect(await machine.json(["plugins", "check", file, "--json"])).toMatchObject({
    ok: true,
    loaded: false,
  });
  const checked = await machine.run(["plugins", "check", file, "--run", "--yes", "--json"]);
  expect(checked.code).toBe(0);
  expect(JSON.parse(checked.stdout)).toMatchObject({
    ok: true,
    name: "jira",
    devices: [{ path: "/dev/jira", tools: ["Jira"] }],
  });
  await machine.ok(["trust", "--yes"]);
  await verdict(machine, ["count it"]);
  expect(toolResults(model.last)).toEqual(["3 words"]);

  expect((await machine.run(["plugins", "new", "jira"])).code).toBe(64);
  machine.write(
    file,
    'import { definePlugin } from "rnix/plugin";\nexport default definePlugin({ name: 1 \n',
  );
  const broken = await machine.run(["plugins", "check", file]);
  expect(broken.code).toBe(1);
  expect(broken.stdout).toContain(`${file}:2:`);
});

const Report = z.looseObject({
  name: z.string(),
  state: z.string(),
  source: z.string(),
  problems: z.array(
    z.looseObject({ message: z.string(), file: z.string().optional(), line: z.number().optional() }),
  ),
});

/** A plugin with one tool, of its name with a capital; the statement on line 3 makes the answer. */
function plugin(name: string, statement: string, before: string[] = []): string {
  const head = ['import { definePlugin } from "rnix/plugin"; let answer = "";', ...before].slice(0, 3);
  while (head.length < 2) head.push("");
  return `${head.join("\n")}
async function act() { ${statement} }
export default definePlugin({
  name: "${name}",
  devices: {
    "/dev/${name}": {
      factory: () => ({
        async write() { await act(); },
        async read() { const piece = answer; answer = ""; return piece; },
        async close() {},
        async stat() { return { name: "${name}", size: 0, isDevice: true, devicePath: "/dev/${name}" }; },
      }),
      tools: [{
        name: "${name.charAt(0).toUpperCase()}${name.slice(1)}",
        description: "Answers.",
        input: { type: "object", properties: {} },
      }],
    },
  },
});
`;
}
