import { describe, expect, test } from "bun:test";
import { Machine } from "./support/machine.ts";

/** The command of a plugin of the project, through the compiled binary and its daemon. */
describe("a command that a plugin in plugins/ brings", () => {
  test("calls its tool, prints tables, texts and JSON, and explains what it does not know", async () => {
    await using machine = new Machine();
    machine.write("plugins/crates.ts", CRATES);
    await machine.ok(["trust", "--yes"]);

    const listed = await machine.run(["crates"]);
    expect(
      listed.stdout
        .trimEnd()
        .split("\n")
        .map((line) => line.trim().split(/ {2,}/)),
    ).toEqual([
      ["CRATE", "HALL", "CONTENT"],
      ["7", "A", "pears"],
      ["8", "A", "-"],
    ]);
    const named = await machine.run([
      "crates",
      "list",
      "B",
      "--min-weight",
      "1.5",
      "--tag",
      "a",
      "--tag",
      "b",
      "--json",
    ]);
    expect(JSON.parse(named.stdout).asked).toEqual({
      hall: "B",
      weight: 1.5,
      tag: ["a", "b"],
      from: "command",
    });
    expect((await machine.run(["crates", "C", "--tag", "x"])).stdout).toContain("C");
    expect(await machine.run(["crates", "list", "empty"])).toMatchObject({
      code: 0,
      stdout: "",
      stderr: "no crates\n",
    });
    expect((await machine.run(["crates", "note", "a", "long", "note"])).stdout).toBe(
      'noted: "a long note"\n',
    );
    expect((await machine.run(["crates", "note", "x", "--json"])).stdout).toBe('"noted: \\"x\\""\n');
    expect((await machine.run(["crates", "raw", "--no-daemon"])).stdout).toBe('{"op":"raw"}\n');

    const help = await machine.run(["crates", "--help"]);
    for (const part of ["The crates of the warehouse", "note", "Write a note", "rnix crates list B"])
      expect(help.stdout).toContain(part);
    expect((await machine.run(["help", "crates", "list"])).stdout).toContain("--min-weight=<N>");

    const refused: [string[], string][] = [
      [["crates", "list", "--min-wieght", "2"], "did you mean --min-weight?"],
      [["crates", "list", "--min-weight", "heavy"], "--min-weight: expected a number"],
      [["crates", "list", "--kind", "appel"], "did you mean apple?"],
      [["crates", "note"], "TEXT is missing"],
      [["crates", "note", "bad"], "rnix crates note: a note is never bad"],
      [["creates"], 'unknown command "creates"'],
    ];
    for (const [args, message] of refused) {
      const { code, stderr, stdout } = await machine.run(args);
      expect({ args, code, stdout }).toEqual({ args, code: 64, stdout: "" });
      expect(stderr).toContain(message);
    }
  });

  test("is not there before the plugin is trusted, which the error says; a built-in name stays", async () => {
    await using machine = new Machine();
    machine.write("plugins/crates.ts", CRATES.replace('name: "crates", summary', 'name: "ps", summary'));
    machine.write(
      "plugins/halls.ts",
      CRATES.replaceAll('name: "crates"', 'name: "halls"')
        .replaceAll("Crates", "Halls")
        .replaceAll("/dev/crates", "/dev/halls"),
    );
    const { code, stderr } = await machine.run(["halls"]);
    expect(code).toBe(64);
    expect(stderr).toContain("is not trusted");
    await machine.run(["trust", "--yes"]);
    expect((await machine.run(["halls"])).stdout).toContain("pears");
    expect((await machine.run(["ps"])).stdout).not.toContain("pears");
  });
});

const CRATES = `import { definePlugin, defineTool, SyscallError } from "rnix/plugin";

const crates = defineTool({
  name: "Crates",
  description: "List the crates of the warehouse.",
  input: { type: "object", properties: { hall: { type: "string" }, weight: { type: "number" } } },
  defer: true,
  run: (input) => {
    const { hall = "A" } = input;
    const rows = [{ id: 7, hall, content: { name: "pears" } }, { id: 8, hall, content: null }];
    return JSON.stringify({ asked: input, crates: hall === "empty" ? [] : rows });
  },
});
const note = defineTool({
  name: "CratesNote",
  description: "Note something about crates.",
  input: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
  defer: true,
  run: ({ text }) => {
    if (text === "bad") throw new SyscallError("INVALID", "a note is never bad");
    return "noted: " + JSON.stringify(text);
  },
});
let written = "";
const file = {
  async write(data) { written = String(data); },
  async read() { const now = written; written = ""; return now; },
  async close() {},
  async stat() { return { name: "crates", size: 0, isDevice: true, devicePath: "/dev/crates/raw" }; },
};

export default definePlugin({
  name: "crates",
  tools: [crates, note],
  devices: { "/dev/crates/raw": { factory: () => file } },
  commands: [
    {
      name: "crates", summary: "The crates of the warehouse",
      default: "list",
      actions: {
        list: {
          summary: "List crates",
          example: "rnix crates list B",
          args: [{ name: "HALL", summary: "of this hall only" }],
          flags: {
            "min-weight": { type: "number", summary: "at least this weight", field: "weight" },
            kind: { type: "string", summary: "of this kind", values: ["apple", "pear"] },
            tag: { type: "list", summary: "with this tag" },
          },
          call: { tool: "Crates" },
          input: { from: "command" },
          output: {
            rows: "crates",
            columns: [
              { title: "CRATE", field: "id", as: "count" },
              { title: "HALL", field: "hall" },
              { title: "CONTENT", field: "content.name" },
            ],
            empty: "no crates",
          },
        },
        note: {
          summary: "Write a note",
          example: "rnix crates note the door is open",
          args: [{ name: "TEXT", summary: "the note", required: true, rest: "text" }],
          call: { tool: "CratesNote" },
        },
        raw: { summary: "Read raw", example: "rnix crates raw", call: { path: "/dev/crates/raw" }, input: { op: "raw" } },
      },
    },
  ],
});
`;
