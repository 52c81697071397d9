import { expect, test } from "bun:test";
import { innerPath, isWithin } from "../../src/lib/inner-path.ts";

test.each([
  ["/p", "/p", ""],
  ["/p", "/p/a/b", "a/b"],
  ["/p", "/p/..cache/a", "..cache/a"],
  ["/p", "/p/...", "..."],
  ["/p", "/", null],
  ["/p", "/pa", null],
  ["/p/q", "/p/r", null],
  ["/", "/p", "p"],
] as const)("%s holds %s at %p", (folder, path, inner) => {
  expect(innerPath(folder, path)).toBe(inner);
  expect(isWithin(folder, path)).toBe(inner !== null);
});
