import { expect, test } from "bun:test";
import { parseScript } from "../../src/shell/parse.ts";

test("a script with substitutions in each other is read up to a depth, and refused beyond", () => {
  const nested = (depth: number): string => `echo ${"$(echo ".repeat(depth)}x${")".repeat(depth)}`;
  expect(parseScript(nested(50), "script")).toHaveLength(1);
  expect(parseScript(`${nested(50)} ${"$(echo x) ".repeat(100)}`, "script")).toHaveLength(1);
  // The parser takes all of the stack for the second one, unless it counts.
  for (const depth of [51, 20_000])
    expect(() => parseScript(nested(depth), "script")).toThrow("too many substitutions in each other");
});
