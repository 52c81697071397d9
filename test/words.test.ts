import { expect, test } from "bun:test";
import { retiredIn } from "./words.ts";

test.each<[string, string, string[]]>([
  ["src/a.ts", "// The caller is notified.\n", []],
  ["src/a.ts", "const a = 1; // Nobody waits.\n", ['src/a.ts:1:17: "Nobody"']],
  ["src/a.ts", '  warn("resume to go on with it");\n', ['src/a.ts:1:19: "go on with"']],
  ["src/a.ts", "/**\n * A run that is laid\n * down.\n */\n", ['src/a.ts:2:18: "laid down"']],
  ["docs/a.md", "so\nmany bytes", ['docs/a.md:1:1: "so many"']],
  ["docs/a.md", "so long answers", []],
  ["src/keyless-file.ts", "", ["src/keyless-file.ts: its name has a retired word"]],
])("retired words in %s: %j", (file, text, expected) => {
  const found = retiredIn(file, text);
  expect(found.map((line, i) => line.startsWith(expected[i] ?? "-"))).toEqual(expected.map(() => true));
});
