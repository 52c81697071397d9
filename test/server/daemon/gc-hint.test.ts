import { expect, test } from "bun:test";
import { GcHint } from "../../../src/server/daemon/gc-hint.ts";

test("every tenth connection that ends triggers a garbage collection", () => {
  let collected = 0;
  const tidy = new GcHint(() => collected++);
  const seen = Array.from({ length: 25 }, () => {
    tidy.served();
    return collected;
  });
  expect([seen[8], seen[9], seen[18], seen[19], seen[24]]).toEqual([0, 1, 1, 2, 2]);
});
