import { describe, expect, test } from "bun:test";
import { ConcurrencyLimit } from "../../../src/kernel/llm/request-limits.ts";
import { seeded } from "../../support/seeded.ts";

describe("the concurrency limit", () => {
  test("begins with a burst, and grows to the provider entry's limit while all slots are taken", () => {
    const atOnce = new ConcurrencyLimit();
    expect(atOnce.limit).toBe(16);
    for (let i = 0; i < 100; i++) atOnce.answered(15);
    expect(atOnce.limit).toBe(16);
    for (let i = 0; i < 1000; i++) atOnce.answered(atOnce.limit);
    expect(atOnce.limit).toBe(32);
  });

  test("a burst of refusals lowers it to the number of accepted calls; a single call changes nothing", () => {
    const atOnce = new ConcurrencyLimit(100);
    while (atOnce.limit < 32) atOnce.answered(atOnce.limit);
    for (let others = 31; others >= 20; others--) atOnce.refused(others);
    expect(atOnce.limit).toBe(20);
    atOnce.refused(0);
    expect(atOnce.limit).toBe(20);
    for (const others of [1, 1, 1]) atOnce.refused(others);
    expect(atOnce.limit).toBe(1);
  });

  test("starts at an entry's number, and follows a change of it", () => {
    const atOnce = new ConcurrencyLimit(200);
    expect(atOnce.limit).toBe(200);
    atOnce.setMax(10);
    expect(atOnce.limit).toBe(10);
    atOnce.setMax(3);
    expect(atOnce.limit).toBe(3);
    atOnce.refused(1);
    atOnce.setMax(50);
    expect([atOnce.limit, atOnce.max]).toEqual([1, 50]);
    atOnce.setMax(undefined);
    expect([atOnce.limit, atOnce.max]).toEqual([1, 32]);
  });

  /** A server with a limit: each round all run together, those above the limit are refused. */
  const play = (atOnce: ConcurrencyLimit, takes: () => number, requests: number) => {
    let refused = 0;
    for (let made = 0; made < requests; ) {
      const running = atOnce.limit;
      const over = Math.max(0, running - takes());
      for (let i = 1; i <= over; i++) atOnce.refused(running - i);
      for (let i = over; i < running; i++) atOnce.answered(running);
      refused += over;
      made += running;
    }
    return refused / requests;
  };

  test.each([1, 2, 5, 10, 17, 20, 31, 40])(
    "a server that takes %i refuses few, and all its places are used",
    (takes) => {
      const atOnce = new ConcurrencyLimit();
      const early = play(atOnce, () => takes, 200);
      expect(early).toBeLessThanOrEqual(takes >= 15 ? 0.05 : 0.2);
      expect(play(atOnce, () => takes, 2000)).toBeLessThanOrEqual(takes === 1 ? 0.05 : 0.02);
      expect(atOnce.limit).toBeGreaterThanOrEqual(Math.min(takes, 32));
    },
  );

  test.each([1, 2, 3, 4, 5])("it comes back when the server takes more again (seed %i)", (seed) => {
    const random = seeded(seed);
    const atOnce = new ConcurrencyLimit(32);
    for (let i = 0; i < 20; i++) {
      const takes = 1 + Math.floor(random() * 32);
      play(atOnce, () => takes, 200);
      expect(atOnce.limit).toBeLessThanOrEqual(takes + 1);
    }
    play(atOnce, () => 32, 20_000);
    expect(atOnce.limit).toBe(32);
  });
});
