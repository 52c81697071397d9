import { expect, test } from "bun:test";
import { RequestRate } from "../../../src/kernel/llm/request-limits.ts";
import { seeded } from "../../support/seeded.ts";

test("counts what was made within the last minute", () => {
  const minute = new RequestRate();
  for (const now of [0, 10, 59_999]) minute.record(now);
  expect([59_999, 60_000, 60_010, 119_998, 119_999].map((now) => minute.count(now))).toEqual([3, 2, 1, 1, 0]);
  expect(minute.waitMs(60_000)).toBe(0);
});

test("a lowered limit waits for all requests above it", () => {
  const minute = new RequestRate();
  for (const now of [0, 10, 20, 30]) minute.record(now);
  minute.limit = 5;
  expect(minute.waitMs(40)).toBe(0);
  minute.limit = 2;
  expect(minute.waitMs(40)).toBe(60_020 - 40);
});

test.each(Array.from({ length: 40 }, (_, seed) => seed))(
  "no minute has more of them than it may, and none waits without need (seed %i)",
  (seed) => {
    const random = seeded(seed);
    const minute = new RequestRate();
    const limit = 1 + Math.floor(random() * 20);
    minute.limit = limit;
    const made: number[] = [];
    const within = (now: number) => made.filter((time) => time > now - 60_000).length;
    let now = 0;
    for (let i = 0; i < 300; i++) {
      now += random() < 0.5 ? 0 : random() * 10_000;
      const waitMs = minute.waitMs(now);
      expect(waitMs > 0).toBe(within(now) >= limit);
      // The wait it names is enough, and one that is a little shorter is not.
      expect(within(now + waitMs)).toBeLessThan(limit);
      if (waitMs > 1) expect(within(now + waitMs - 1)).toBe(limit);
      now += waitMs;
      made.push(now);
      minute.record(now);
      expect(minute.count(now)).toBe(within(now));
    }
  },
);
