import { expect, test } from "bun:test";
import { findJsonProblem } from "../../src/lib/json-problem.ts";

test.each([
  ['{"a": 1,}', 1, 8, 'remove the "," before "}"'],
  ["[1, 2,\n]", 1, 6, 'remove the "," before "]"'],
  ['{"a": 1 "b": 2}', 1, 9, 'expected "," or "}", found "\\""'],
  ['{\n  "a": [1\n', 3, 1, 'the "[" of line 2 is not closed: expected "]"'],
  ["{a: 1}", 1, 2, 'expected a key in double quotes, found "a"'],
  ["{'a': 1}", 1, 2, "a single quote"],
  ['{"a" 1}', 1, 6, 'expected ":" after the key'],
  ['{"a": tru}', 1, 7, 'expected a value, found "tru"'],
  ['{"a": 01}', 1, 7, "expected a value"],
  ['{"a": "x\ny"}', 1, 7, "no closing double quote in its line"],
  ['{"a": "x\ty"}', 1, 9, "escaped"],
  ['{"a": "C:\\dir"}', 1, 10, "backslash"],
  ['{"a": 1} // mine', 1, 10, "no comments"],
  ["", 1, 1, "the end of the file"],
  ["[".repeat(300), 1, 202, "levels"],
])("%j", (text, line, column, words) => {
  const problem = findJsonProblem(text);
  expect(problem).toMatchObject({ line, column });
  expect(problem?.message).toContain(words);
});

test.each(['{"a": [1, -2.5e3, true, null, "\\u00e9\\n"], "b": {}}', " [] ", "0"])("%j is JSON", (text) => {
  expect(findJsonProblem(text)).toBeNull();
});
