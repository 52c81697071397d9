import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { readTyped } from "../../../src/cli/chat/composer.ts";
import { expandPrompt, findPromptCommands, wordsOf } from "../../../src/cli/chat/prompt-commands.ts";

const root = realpathSync(mkdtempSync(join(tmpdir(), "prompt-commands-")));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const folders = {
  project: join(root, "project"),
  configDir: join(root, "home/.config/rnix"),
  home: join(root, "home"),
};

function write(path: string, text: string): string {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
  return join(root, path);
}

describe("prompt commands", () => {
  write(
    "project/.rnix/commands/review.md",
    "---\ndescription: Review a file\nargument-hint: [file] [line]\n---\nReview $1 at $2.\n",
  );
  write("project/.claude/commands/review.md", "another");
  write("project/.claude/commands/git/commit.md", "# Commit the work\nDo it.");
  write("project/.claude/commands/notes.txt", "no command");
  write("project/.claude/commands/bad name.md", "no command");
  write("home/.claude/commands/review.md", "the user's");
  write(
    "home/.claude/commands/mine.md",
    '---\r\ndescription: "My own"\r\nmodel: opus\r\n---\r\nMine: $ARGUMENTS',
  );
  write(
    "home/.config/rnix/commands/long.md",
    "---\ndescription: >\n  over two\n  lines\nmodel: x\n---\nText",
  );
  write("secret.md", "a key");
  symlinkSync(join(root, "secret.md"), join(root, "project/.claude/commands/leak.md"));
  symlinkSync(join(root, "secret.md"), join(root, "home/.claude/commands/dotfile.md"));

  test("are found in the project and in the user's folders; the project's win", () => {
    const found = findPromptCommands(folders).map(({ name, about, of, hint }) => ({ name, about, of, hint }));
    expect(found).toEqual([
      { name: "review", about: "Review a file", of: "project", hint: "[file] [line]" },
      { name: "git:commit", about: "Commit the work", of: "project", hint: undefined },
      { name: "long", about: "over two lines", of: "user", hint: undefined },
      { name: "dotfile", about: "a key", of: "user", hint: undefined },
      { name: "mine", about: "My own", of: "user", hint: undefined },
    ]);
  });

  test("of a project that is none are those of the user", () => {
    const names = findPromptCommands({ ...folders, project: null }).map(({ name }) => name);
    expect(names).toEqual(["long", "dotfile", "mine", "review"]);
  });

  test("get their arguments once, and never look into them", () => {
    const file = write("a.md", "Compare $1 with $2: $ARGUMENTS costs $10 and $HOME");
    expect(expandPrompt({ file }, '"two words" $1').text).toBe(
      'Compare two words with $1: "two words" $1 costs $10 and $HOME',
    );
    expect(expandPrompt({ file }, "").text).toBe("Compare  with :  costs $10 and $HOME");
  });

  test("without a place for arguments get them at the end", () => {
    const file = write("b.md", "---\ndescription: x\n---\n\nWrite tests.\n");
    expect(expandPrompt({ file }, "for src/a.ts")).toEqual({ text: "Write tests.\n\nfor src/a.ts" });
    expect(expandPrompt({ file }, " ").text).toBe("Write tests.");
  });

  test("run no commands, and say so", () => {
    const expanded = expandPrompt({ file: write("c.md", "Status: !`git status`") }, "");
    expect(expanded.text).toBe("Status: !`git status`");
    expect(expanded.note).toContain("runs no commands");
  });
});

test("arguments are words, and quotes keep them together", () => {
  expect(wordsOf(`a "b c" d'e f'g  ''`)).toEqual(["a", "b c", "de fg", ""]);
});

describe("a typed line", () => {
  const typed = (text: string) =>
    readTyped(text, ["model", "resume", "git:commit"], (word) => word === "/tmp");

  test("is a command with its arguments, or a message", () => {
    expect(typed("/model  fast one ")).toEqual({ kind: "command", name: "model", args: "fast one" });
    expect(typed(" /git:commit a\nb")).toEqual({ kind: "command", name: "git:commit", args: "a\nb" });
    expect(typed("see /model")).toEqual({ kind: "message", text: "see /model" });
  });

  test("that begins with a path is a message", () => {
    expect(typed("/etc/hosts is odd").kind).toBe("message");
    expect(typed("/tmp is full").kind).toBe("message");
    expect(typed("/ is full").kind).toBe("message");
    expect(typed("// a comment").kind).toBe("message");
  });

  test("with an unknown command names the nearest one", () => {
    expect(typed("/modle x")).toEqual({ kind: "unknown", name: "modle", nearest: "model" });
    expect(typed("/zzzzzz")).toEqual({ kind: "unknown", name: "zzzzzz", nearest: undefined });
  });
});
