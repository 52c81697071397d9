import { expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { TerminalSession } from "../../support/terminal.ts";
import { until } from "../../support/until.ts";
import { binary } from "../support/binary.ts";
import { Machine } from "../support/machine.ts";

setDefaultTimeout(120_000);

const PICTURES = join(import.meta.dir, "../../../docs/pictures");

/**
 * Holds a picture of the documents against the screen; with UPDATE_DOCS=1 it is written instead. Times, sizes, PIDs and
 * folders differ between any two runs, so they do not count, and neither do the columns that follow them.
 */
function picture(name: string, title: string, { screen }: TerminalSession): void {
  const file = join(PICTURES, `${name}.svg`);
  // The folder of the test's machine stands for the user's.
  const svg = screen.svg({ title }).replaceAll(/\/[^\s<]*rnix-e2e-\w+\/data\//g, "~/.local/share/");
  mkdirSync(dirname(file), { recursive: true });
  if (process.env.UPDATE_DOCS) writeFileSync(file, svg);
  else {
    expect(existsSync(file), "UPDATE_DOCS=1 writes the picture").toBe(true);
    expect(words(readFileSync(file, "utf8")), "UPDATE_DOCS=1 writes the picture").toEqual(words(svg));
  }
}

/** The words of a picture, row by row. */
function words(svg: string): string[] {
  const rows = Map.groupBy(svg.matchAll(/<text [^>]*y="(\d+)"[^>]*>(.*?)<\/text>/g), ([, y]) => y);
  return [...rows.values()].map((spans) =>
    spans
      .map(([, , text = ""]) => text)
      .join(" ")
      .replaceAll(/\b\d+(\.\d+)?(ms|s)\b|\b\d+m\d\ds\b/g, "TIME")
      .replaceAll(/\b\d\d:\d\d:\d\d\b/g, "TIME")
      .replaceAll(/[\u2800-\u28ff]/g, "SPINNER")
      .replaceAll(/\b\d+(\.\d+)?k?(?= tokens| in context)/g, "COUNT")
      .replaceAll(/\bprocess \d+/g, "process PID")
      .replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "UUID")
      .replaceAll(/\/[^\s]*rnix-e2e-[^\s]*/g, "FOLDER")
      .replaceAll(/run-\w+/g, "FOLDER")
      .split(/\s+/)
      .filter(Boolean)
      .join(" "),
  );
}

/** Puts `rnix` on the PATH, so that it names itself as its user does. */
function onPath(machine: Machine): Machine {
  const bin = join(machine.elsewhere, "bin");
  mkdirSync(bin, { recursive: true });
  symlinkSync(binary(), join(bin, "rnix"));
  machine.env.PATH = `${bin}:${machine.env.PATH}`;
  return machine;
}

/** A project with a failing test, and a script that repairs it with two sub-agents; it waits for the file `go`, its second agent for `now`. */
function machineWithRun(): Machine {
  const machine = onPath(new Machine());
  machine.write(
    "notes.ts",
    "let total = 0;\nfor (let i = 1; i < notes.length; i++) {\n  total += notes[i].length;\n}\n",
  );
  machine.write(
    "test.sh",
    'for i in 1 2 3 4 5 6 7; do echo "check $i of 10 ok"; done\nwhile [ ! -e go ]; do sleep 0.05; done\necho "check 8 of 10 FAILED: 2 notes, expected 3"\nexit 1\n',
  );
  machine.write(
    "script.yaml",
    `responses:
  - reasoning: The user wants the test fixed. First I run it.
    text: I run the test first.
    tool_calls: [{ name: Bash, input: { command: sh test.sh } }]
  - text: One note is missing. Two agents look at the two suspects.
    tool_calls:
      - { name: Agent, input: { agent: default, intent: Read the loop in notes.ts } }
      - { name: Agent, input: { agent: default, intent: Look for other loops } }
  - tool_calls: [{ name: Edit, input: { path: notes.ts, old_string: "let i = 1", new_string: "let i = 0" } }]
  - text: |
      ## What was wrong

      The loop in \`notes.ts\` began at **1**, so the first note was skipped.

      | file | before | after |
      |---|--:|--:|
      | notes.ts | 1 | 0 |
children:
  - agent: default
    intent: Read the loop in notes.ts
    responses:
      - tool_calls: [{ name: Read, input: { path: notes.ts } }]
      - text: It begins at 1.
  - agent: default
    intent: Look for other loops
    responses:
      - tool_calls: [{ name: Bash, input: { command: "until [ -e now ]; do sleep 0.05; done; grep for notes.ts" } }]
      - text: There is no other loop.
`,
  );
  return machine;
}

test("the pictures of a run: while a command runs, and at its end", async () => {
  await using machine = machineWithRun();
  const spawn = ["spawn", "--provider", "replay", "--model", "script.yaml", "fix the failing test"];
  await using terminal = machine.terminal(spawn, { columns: 80, rows: 24 });
  await terminal.until(/check 7 of 10 ok[\s\S]*running Bash/);
  picture("live", "A run while its command works", terminal);
  machine.write("go", "");
  await terminal.until(/Read the loop in notes.ts · 2 steps/);
  machine.write("now", "");
  await terminal.done;
  picture("run", "A run with two sub-agents, to its end", terminal);
});

test("the picture of a conversation: a message waits for the next step", async () => {
  await using machine = machineWithRun();
  const chat = ["chat", "--provider", "replay", "--model", "script.yaml"];
  await using terminal = machine.terminal(chat, { columns: 80, rows: 24 });
  await terminal.until(/a message, \/ for commands/);
  terminal.type("fix the failing test\r");
  await terminal.until(/check 7 of 10 ok[\s\S]*running Bash/);
  terminal.type("only touch notes.ts\r");
  await terminal.until(/next step: only touch/);
  terminal.type("and tell me why");
  await terminal.until(/❯ and tell me why/);
  picture("chat", "A conversation in which a message waits for the next step", terminal);
  machine.write("go", "");
  machine.write("now", "");
  await terminal.until((text) => text.includes("What was wrong") && !text.includes("running"));
  terminal.type("\u0015\u0004");
  await terminal.done;
});

test("the picture of all runs: one waits for an answer, one works with two agents", async () => {
  await using machine = machineWithRun();
  machine.write("asks.yaml", "responses: [{ tool_calls: [{ name: Bash, input: { command: git push } }] }]");
  machine.write("short.yaml", "responses: [{ text: It is done. }]");
  const spawn = (script: string, ...args: string[]) =>
    machine.ok(["spawn", "--provider", "replay", "--model", script, ...args]);
  await spawn("short.yaml", "write the release notes");
  machine.write("long.yaml", "responses: [{ tool_calls: [{ name: Bash, input: { command: ls } }] }]");
  await machine.run([
    "spawn",
    "--provider",
    "replay",
    "--model",
    "long.yaml",
    "--max-steps",
    "1",
    "sort them",
  ]);
  machine.write("go", "");
  await spawn("script.yaml", "--detach", "fix the failing test");
  // Their numbers are in the picture.
  await until(async () => (await machine.ok(["ps", "-a"])).stdout.split("\n").length > 6, "its two agents");
  await spawn("asks.yaml", "--detach", "publish it", "--ask", "Bash(git push *)", "--on-ask", "park");
  await using terminal = machine.terminal(["top"], { columns: 80, rows: 24 });
  const settled = [/Waiting for you 1/, /Agent Look/, /other .* Bash until/, /└.*completed/, /Done 1/];
  await terminal.until((text) => settled.every((one) => one.test(text)));
  terminal.type("\u001b[B\u001b[B");
  await terminal.until(/❯ \d+/);
  terminal.type("l");
  await terminal.until(/call +Bash until/);
  picture("top", "All runs in a window", terminal);
  terminal.type("q");
  await terminal.done;
  machine.write("now", "");
});

test("the picture of rnix demo", async () => {
  await using machine = onPath(new Machine());
  await using terminal = machine.terminal(["demo"], { columns: 80, rows: 24 });
  await terminal.until(/any key/);
  terminal.type("  ");
  await terminal.done;
  picture("demo", "rnix demo", terminal);
});
