import { describe, expect, test } from "bun:test";
import { callLine, callText } from "../../src/cli/output/call-text.ts";
import { styleOf } from "../../src/cli/output/style.ts";
import { BlockText } from "../../src/cli/transcript/block-text.ts";
import { callBlock } from "../../src/cli/transcript/run-calls.ts";
import type { LoggedCall } from "../../src/run/live-event.ts";
import { FakeOutput } from "./support.ts";

describe("a tool call in the form that a person would write it", () => {
  test.each<[string, Record<string, unknown>, string]>([
    ["Bash", { command: "npm test", description: "run the tests" }, "npm test"],
    ["Bash", { command: "for i in 1 2; do\n  echo $i\ndone\n" }, "for i in 1 2; do\n  echo $i\ndone"],
    ["Read", { path: "src/a.ts" }, "src/a.ts"],
    ["Read", { path: "src/a.ts", offset: 10, limit: 31 }, "src/a.ts:10-40"],
    ["Read", { path: "src/a.ts", offset: 10 }, "src/a.ts:10-"],
    ["Read", { path: "src/a.ts", limit: 20 }, "src/a.ts:1-20"],
    ["Write", { path: "a.txt", content: "x".repeat(5000) }, "a.txt"],
    ["Edit", { path: "a.txt", old_string: "a", new_string: "b" }, "a.txt"],
    [
      "Edit",
      { path: "a.txt", old_string: "a", new_string: "b", replace_all: true },
      "a.txt (all occurrences)",
    ],
    ["Grep", { pattern: "x", path: "src" }, '"x" in src'],
    ["Grep", { pattern: "x", glob: "*.ts", case_insensitive: true }, '-i "x" (*.ts)'],
    ["Glob", { pattern: "**/*.md", path: "docs" }, "**/*.md in docs"],
    ["Agent", { intent: "count the files", agent: "coder" }, "coder: count the files"],
    ["Agent", { intent: "count the files" }, "count the files"],
    ["Skill", { skill: "release" }, "release"],
    ["Plan", { steps: ["a", "b"] }, "2 steps"],
    ["SendMessage", { to: 3, message: "done" }, "to 3: done"],
    ["mcp__github__search", { q: "rnix agents", limit: 3 }, 'q="rnix agents" limit=3'],
    [
      "mcp__github__create",
      { title: "a=b", labels: ["x", "y"], draft: true },
      'title="a=b" labels=["x","y"] draft=true',
    ],
    ["mcp__db__list", {}, ""],
  ])("%s %j", (name, input, argument) => {
    expect(callText(name, input)).toEqual({ name, argument });
  });

  test.each<[string, Record<string, unknown>]>([
    ["Bash", { cmd: "ls" }],
    ["Read", { file: "a.ts", offset: "x" }],
    ["Edit", { path: "a.ts", old: "a" }],
    ["Grep", { path: "src" }],
  ])("%s with fields it does not have shows all of them: %j", (name, input) => {
    const { argument } = callText(name, input);
    for (const [key, value] of Object.entries(input)) expect(argument).toContain(`${key}=${value}`);
  });

  test("paths below the current folder are relative to it", () => {
    const at = (path: string): string => callText("Grep", { pattern: "x", path }, "/home/me/app").argument;
    expect(at("/home/me/app/src/a.ts")).toBe('"x" in src/a.ts');
    expect(at("/home/me/app")).toBe('"x"');
    expect(at("/home/me/application")).toBe('"x" in /home/me/application');
    expect(callText("Bash", { command: "ls /home/me/app/src" }, "/home/me/app").argument).toBe(
      "ls /home/me/app/src",
    );
  });

  test("control characters of a model are removed, a megabyte is cut, and one line stays one", () => {
    expect(callText("Bash", { command: "\x1b[2Jls\x07" }).argument).toBe("ls");
    expect(callText("mcp__x", { "k\x1b[1m": "\x1b]0;t\x07v" }).argument).toBe("k=v");
    expect(callLine("Bash", { command: `echo ${"x".repeat(1_000_000)}` }, 80)).toHaveLength(80);
    expect(callLine("Bash", { command: "a\nb" }, 80)).toBe("Bash a b");
  });
});

describe("a call in a log of plain lines", () => {
  const style = styleOf({ env: {} }, new FakeOutput());
  const call = (o: Partial<LoggedCall>): LoggedCall =>
    ({
      ...{ id: "1", name: "Bash", path: "/dev/shell", input: { command: "ls" }, state: "done", result: "" },
      ...{ error: null, error_code: null, started_at: "", duration_ms: 1 },
      ...o,
    }) as LoggedCall;
  const started = (o: Partial<LoggedCall>): string => new BlockText(style).started(call(o));

  test("a command of several lines keeps them", () => {
    const input = { command: "cat <<E\nhello\nE" };
    expect(started({ input })).toBe("  > Bash cat <<E\n         hello\n         E");
  });

  test("an edit shows its file, and its diff is the result", () => {
    const input = { path: "a.ts", old_string: "x".repeat(100), new_string: "y" };
    expect(started({ name: "Edit", input })).toBe("  > Edit a.ts");
  });

  test.each([
    ["failed", "failed: no such file"],
    ["denied", "denied: no such file"],
    ["cancelled", "stopped: no such file"],
  ] as const)("a call that is %s begins with that", (state, shown) => {
    const block = callBlock(call({ state, error: "no such file" }), 0);
    const text = new BlockText(style).of({ kind: "call", call: block, agents: [] });
    expect(text).toBe(`  > Bash ls\n    ${shown}`);
  });
});
