import { expect, test } from "bun:test";
import { BoundedMap } from "../../src/lib/caches.ts";

test("drops the entry that was set longest ago, and names its value", () => {
  const dropped: number[] = [];
  const map = new BoundedMap<string, number>(2, (value) => dropped.push(value));
  map.set("a", 1).set("b", 2).set("a", 3).set("c", 4);
  expect([...map]).toEqual([
    ["a", 3],
    ["c", 4],
  ]);
  expect(dropped).toEqual([2]);
});
