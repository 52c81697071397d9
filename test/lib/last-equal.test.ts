/** Equal values become one. */

import { expect, test } from "bun:test";
import { LastEqual } from "../../src/lib/caches.ts";

test("equal values that follow each other are one object, and another value begins again", () => {
  const settings = new LastEqual<Record<string, number | undefined>>();
  const first = settings.of({ a: 1 });
  expect(settings.of({ a: 1 })).toBe(first);
  const other = settings.of({ a: 1, b: undefined });
  expect(other).not.toBe(first);
  expect(settings.of({ a: 1 })).not.toBe(first);
});
