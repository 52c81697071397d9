import { expect, test } from "bun:test";
import { Machine } from "../../support/machine.ts";
import { calls, says } from "../../support/scenes.ts";

const OSC = "\u001b]0;";

/** Commands that a terminal, or a filter for one, would show without their second half. */
const HIDING = {
  "a title of the window": `ls ${OSC}\ntouch ran\n\u0007`,
  "a title without an end": `ls ${OSC}\ntouch ran`,
  "a title by one character": "ls \u009d0;touch ran;\u009c",
  "a link": "ls \u001b]8;;x;touch ran\u0007a\u001b]8;;\u0007",
  "a device control string": "ls \u001bP;touch ran;\u001b\\",
  "a sequence of colours": "ls \u001b[ touch ran",
  "a carriage return": "touch ran #\rls            ",
  backspaces: "touch ran\b\b\b\b\b\b\b\b\bls",
  "a reversal": "ls \u202enar hcuot",
  tags: "ls \u{e0074}\u{e006f}",
  "no width": "l\u200bs",
  "no glyph": "ls \u3164 \u2800 \u034f \ufe0f",
  "the end of 30,000 characters": `ls ${"x".repeat(30_000)}; touch ran`,
};

const DESCRIPTION = `${"x".repeat(100)} the end of it`;

test("a question shows all of a call, also what a terminal hides", async () => {
  await using machine = new Machine();
  const commands = Object.values(HIDING).map((command): [string, object] => ["Bash", { command }]);
  const other: [string, object] = ["TaskCreate", { subject: "short", description: DESCRIPTION }];
  for (const [i, one] of [...commands, other].entries()) {
    await machine.play({ [`go ${i}`]: [calls(one as [string, Record<string, unknown>]), says("done")] });
    const rules = ["--ask", "Bash", "--ask", "TaskCreate"];
    await machine.run(["spawn", `go ${i}`, ...rules, "--on-ask", "park", "-q"]);
  }
  const asks: { request_id: string; call: { tool: string; input: { command: string } } }[] =
    await machine.json(["asks", "--json"]);
  expect(asks).toHaveLength(commands.length + 1);
  const listed = (await machine.run(["asks"])).stdout;
  for (const { request_id: id, call } of asks) {
    const { stdout } = await machine.run(["answer", id]);
    const shown = [stdout, (await machine.run(["answer", id, "no"])).stdout];
    for (const text of [listed, ...shown]) expect(text).not.toMatch(/(?!\n)[\p{Cc}\p{Cf}\p{DI}\u2800]/u);
    const expected =
      call.tool === "Bash"
        ? call.input.command.replaceAll(/[^ -~\n]/gu, written)
        : `description: ${DESCRIPTION}`;
    for (const text of shown) for (const line of expected.split("\n")) expect(text).toContain(line.trim());
  }
  await machine.run(["wait", "--all"]);
});

test("an answer allows only what rnix asks has shown, or what was printed and read", async () => {
  await using machine = new Machine();
  const some: [string, string, Record<string, unknown>][] = [
    ["yes", "Bash", { command: `ls ${"漢".repeat(1500)}; touch ran` }],
    ["yes", "Bash", { command: `${`ls ${"x".repeat(106)}\n`.repeat(18)}touch ran` }],
    ["yes", "Write", { path: "ran", content: "not in the list\n" }],
    ["yes", "Edit", { path: "a.txt", old_string: "a", new_string: "not in the list" }],
    ["always", "Bash", { command: "touch ran" }],
  ];
  machine.write("a.txt", "a\n");
  for (const [i, [, tool, input]] of some.entries()) {
    await machine.play({ [`go ${i}`]: [calls([tool, input]), says("done")] });
    await machine.run(["spawn", `go ${i}`, "--ask", "Bash,Write,Edit", "--on-ask", "park", "-q"]);
  }
  const asks: { request_id: string }[] = await machine.json(["asks", "--json"]);
  expect(asks).toHaveLength(some.length);
  for (const [i, { request_id: id }] of asks.entries()) {
    const { code, stderr } = await machine.run(["answer", id, some[i]?.[0] ?? ""], {
      stdin: { text: "y\n" },
    });
    expect([code, stderr]).toEqual([64, expect.stringContaining("read it above, then answer with --read")]);
    const short = await machine.run(["answer", id.slice(0, 3), "yes", "--read"]);
    expect([short.code, short.stderr]).toEqual([64, expect.stringContaining("at least 4 characters")]);
  }
  expect((await machine.run(["answer", asks.at(-1)?.request_id ?? "", "always"])).stdout).toContain(
    "always Bash(touch *)  until this run ends",
  );
  expect([machine.has("ran"), machine.read("a.txt")]).toEqual([false, "a\n"]);
  await machine.run(["kill", "--all"]);
});

test("the live view hides nothing behind tabs", async () => {
  await using machine = new Machine();
  for (const [i, tabs] of ["\t".repeat(900), " \t".repeat(15), ` \\\n${"\t".repeat(900)}`].entries()) {
    await machine.play({ [`go ${i}`]: [calls(["Bash", { command: `ls${tabs}; touch ran` }]), says("done")] });
    await using terminal = machine.terminal(["spawn", `go ${i}`, "--ask", "Bash"], { columns: 60 });
    const shown = await terminal.until(/Enter chooses/);
    expect(shown.slice(shown.indexOf("needs your answer"), shown.indexOf("1 Yes"))).toContain("touch ran");
  }
  await machine.run(["kill", "--all"]);
});

function written(char: string): string {
  return char === "\r" ? "\\r" : `\\u{${(char.codePointAt(0) ?? 0).toString(16).padStart(2, "0")}}`;
}
