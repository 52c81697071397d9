import { expect, test } from "bun:test";
import { splitToolRules } from "../../src/lib/tool-rules.ts";

test.each([
  ["Read", ["Read"]],
  ["Read,Grep", ["Read", "Grep"]],
  ["Read, Grep Glob", ["Read", "Grep", "Glob"]],
  ["Read,,Grep,", ["Read", "Grep"]],
  ["Bash(git log --format=%h,%s),Read", ["Bash(git log --format=%h,%s)", "Read"]],
  ["Bash(git *) Bash(npm test)", ["Bash(git *)", "Bash(npm test)"]],
  ["Read(src/**),Write(a, b.txt)", ["Read(src/**)", "Write(a, b.txt)"]],
  ["Bash(sh -c (a; b)),Read", ["Bash(sh -c (a; b))", "Read"]],
  ["/dev/fs,mcp__github__*,*", ["/dev/fs", "mcp__github__*", "*"]],
  ["Bash(git:*)", ["Bash(git *)"]],
  // No list: the rule's parser says what is wrong.
  [",", [","]],
  ["", [""]],
  ["Bash(git *", ["Bash(git *"]],
  ['Bash(echo ")" x)', ['Bash(echo ")" x)']],
  ["Re$d,Grep", ["Re$d,Grep"]],
])("%p is %p", (listed, rules) => {
  expect(splitToolRules(listed)).toEqual(rules);
});
