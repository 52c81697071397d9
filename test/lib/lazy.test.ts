import { expect, test } from "bun:test";
import { lazy } from "../../src/lib/caches.ts";

test("a part is made once, by its first use", () => {
  let made = 0;
  const part = lazy(() => ({ n: ++made }));
  expect([part.made, made]).toEqual([undefined, 0]);
  expect(part()).toBe(part());
  expect([part.made, made]).toEqual([{ n: 1 }, 1]);
});
