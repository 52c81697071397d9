import { expect, test } from "bun:test";
import { isDeeper } from "../../src/server/methods/method-table.ts";

test.each([
  ["lists", "[".repeat(11) + "]".repeat(11), true],
  ["objects", '{"a":'.repeat(11) + 1 + "}".repeat(11), true],
  ["both, unfinished", '{"a":['.repeat(6), true],
  ["exactly as many", "[".repeat(10) + "]".repeat(10), false],
  ["many beside each other", `[${"[[]],".repeat(50)}[]]`, false],
  ["brackets in a string", `["${"[".repeat(50)}"]`, false],
  ["brackets after an escaped quote", `["\\"${"[{".repeat(50)}\\\\","x"]`, false],
  ["after a string that ends with a backslash", `["\\\\",${"[".repeat(20)}`, true],
])("%s", (_, json, deeper) => {
  expect(isDeeper(json, 10)).toBe(deeper);
});
