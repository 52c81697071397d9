import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runCommandLine } from "../../src/cli/cli.ts";
import { AtTerminal } from "../e2e/support/running.ts";
import { FakeIo } from "./support.ts";

const dir = mkdtempSync(join(tmpdir(), "rnix-completions-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

async function script(shell: string): Promise<string> {
  const io = new FakeIo();
  expect(await runCommandLine(["completions", shell], io)).toBe(0);
  const file = join(dir, `rnix.${shell}`);
  await Bun.write(file, io.stdout.text);
  return file;
}

/** What bash would offer for these words, the last one being typed. */
async function offered(...words: string[]): Promise<string[]> {
  const file = await script("bash");
  const lines = [
    `source ${file}`,
    `COMP_WORDS=(${words.map((word) => `'${word}'`).join(" ")})`,
    `COMP_CWORD=${words.length - 1}`,
    "_rnix",
    `printf '%s\\n' "\${COMPREPLY[@]}"`,
  ];
  const { stdout, stderr } = Bun.spawnSync(["bash", "-c", lines.join("\n")], { cwd: dir });
  expect(stderr.toString()).toBe("");
  return stdout.toString().trimEnd().split("\n");
}

describe("completions", () => {
  test.each([
    ["bash", ["bash", "-n"]],
    ["zsh", ["zsh", "-n"]],
    ["fish", ["fish", "--no-execute"]],
  ])("of %s are valid for that shell, where it is installed", async (shell, check) => {
    const file = await script(shell);
    const [program = "", ...args] = check;
    if (Bun.which(program) === null) return;
    const { exitCode, stderr } = Bun.spawnSync([program, ...args, file]);
    expect(stderr.toString()).toBe("");
    expect(exitCode).toBe(0);
  });

  test.each(["bash", "zsh", "fish"])(
    "of %s have every command and its flags, and no hidden one",
    async (shell) => {
      const text = await Bun.file(await script(shell)).text();
      for (const word of ["spawn", "completions", "max-steps", "foreground", "jsonl"])
        expect(text).toContain(word);
      expect(text).not.toContain("internal");
      // An apostrophe in a description must not end its quotes.
      expect(text.replaceAll("'\\''", "").split("'").length % 2).toBe(1);
    },
  );

  test("an unknown shell is refused with the nearest name", async () => {
    const io = new FakeIo();
    expect(await runCommandLine(["completions", "fihs"], io)).toBe(64);
    expect(io.stderr.text).toContain("expected bash, zsh, fish");
    expect(io.stderr.text).toContain("did you mean fish?");
  });

  test.each([
    [["rnix", "sp"], ["spawn"]],
    [
      ["rnix", "co"],
      ["compact", "continue", "config", "completions"],
    ],
    [
      ["rnix", "daemon", "st"],
      ["start", "status", "stop"],
    ],
    [["rnix", "daemon", "stop", "--n"], ["--now"]],
    [
      ["rnix", "spawn", "--max"],
      ["--max-steps", "--max-cost"],
    ],
    [
      ["rnix", "spawn", "x", "--output", "json"],
      ["json", "jsonl"],
    ],
    [
      ["rnix", "spawn", "--sandbox", ""],
      ["auto", "required", "off"],
    ],
    [["rnix", "completions", "f"], ["fish"]],
    [["rnix", "daemon", "sto"], ["stop"]],
  ])("bash offers for %j: %j", async (words, expected) => {
    expect(await offered(...words)).toEqual(expected);
  });

  test.each([
    // "=" separates words in bash.
    [
      ["rnix", "spawn", "--output", "=", "js"],
      ["json", "jsonl"],
    ],
    [
      ["rnix", "spawn", "--output", "="],
      ["text", "json", "jsonl"],
    ],
    // A value that may be anything is no flag, and neither is a file; readline offers files where nothing is offered.
    [["rnix", "spawn", "--agent", ""], [""]],
    [["rnix", "kill", "-s", ""], [""]],
    [["rnix", "spawn", "--add", "--"], [""]],
    [["rnix", "plugins", "check", ""], [""]],
    [
      ["rnix", "plugins", "check", "-"],
      ["--run", "--yes", "--json"],
    ],
    [
      ["rnix", "wait", "3", ""],
      ["--timeout", "--json"],
    ],
  ])("bash offers for %j: %j", async (words, expected) => {
    expect(await offered(...words)).toEqual(expected);
  });

  test.each([
    ["rnix agen\t", ["agents"]],
    ["rnix pl\tch\tag\t", ["plugins", "check", "agents/"]],
    ["rnix spawn --output=t\t", ["spawn", "--output=text"]],
    ["rnix spawn --add no\t", ["spawn", "--add", "notes of mine.md"]],
    ["rnix spawn --add=no\t", ["spawn", "--add=notes of mine.md"]],
    ["rnix plugins check no\t", ["plugins", "check", "notes of mine.md"]],
    ["rnix spawn --dry-\t", ["spawn", "--dry-"]],
  ])("in a bash at a terminal, in a project with a folder agents, %j becomes %j", async (typed, expected) => {
    const project = mkdtempSync(join(dir, "project-"));
    await Bun.write(join(project, "agents", "mine", "agent.yaml"), "");
    await Bun.write(join(project, "notes of mine.md"), "");
    const rc = join(dir, "rc");
    const lines = [
      "PS1='ready> '",
      "bind 'set enable-bracketed-paste off'",
      `source ${await script("bash")}`,
      `rnix() { printf 'given'; printf '[%s]' "$@"; printf '.\\n'; }`,
    ];
    await Bun.write(rc, `${lines.join("\n")}\n`);
    const bash = new AtTerminal({
      argv: ["bash", "--noprofile", "--rcfile", rc, "-i"],
      cwd: project,
      env: { PATH: process.env.PATH ?? "", HOME: project },
    });
    await bash.shows(/ready> /);
    bash.type(`${typed}\n`);
    expect(await bash.shows(/given.*\.\r?\n/)).toStartWith(
      `given${expected.map((word) => `[${word}]`).join("")}.`,
    );
    bash.type("exit\n");
    expect((await bash.done).code).toBe(0);
  });
});
