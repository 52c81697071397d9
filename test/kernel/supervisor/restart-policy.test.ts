import { describe, expect, test } from "bun:test";
import {
  backoffDelayMs,
  RestartDelays,
  Restarts,
  RestartWindow,
  rulesFor,
} from "../../../src/kernel/supervisor/restart-policy.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { seeded } from "../../support/seeded.ts";

/** OTP's algorithm (`supervisor:add_restart/1`), as plainly as they can be put: all restarts are stored. */
function otp(intensity: number, periodMs: number): (now: number) => boolean {
  const all: number[] = [];
  return (now) => {
    const kept = all.filter((at) => at >= now - periodMs).length;
    if (kept + 1 > intensity) return false;
    all.push(now);
    return true;
  };
}

describe("the window of restarts", () => {
  test("allows as many as the limit says, and refuses one more", () => {
    const window = new RestartWindow({ intensity: 3, periodMs: 60_000 });
    expect([0, 1, 2, 3].map((now) => window.add(now))).toEqual([true, true, true, false]);
  });

  test("of 0 allows none", () => {
    const window = new RestartWindow({ intensity: 0, periodMs: 60_000 });
    expect(window.add(0)).toBe(false);
    expect(window.allowedInMs(0)).toBe(Number.POSITIVE_INFINITY);
  });

  for (const [after, within] of [
    [999, false],
    [1_000, false], // Exactly a period old: OTP still counts it.
    [1_001, true],
  ] as const) {
    test(`of one in a second: the second one after ${after} ms is ${within ? "" : "not "}within it`, () => {
      const window = new RestartWindow({ intensity: 1, periodMs: 1_000 });
      window.add(5_000);
      expect(window.add(5_000 + after)).toBe(within);
    });
  }

  test("says when it allows another one, and then does", () => {
    const window = new RestartWindow({ intensity: 2, periodMs: 1_000 });
    expect(window.allowedInMs(0)).toBe(0);
    window.add(100);
    expect(window.allowedInMs(300)).toBe(0);
    window.add(300);
    expect(window.allowedInMs(400)).toBe(701);
    expect(window.add(1_100)).toBe(false);
    expect(window.add(1_101)).toBe(true);
  });

  test("is OTP's, for random restarts", () => {
    const random = seeded(7);
    for (let run = 0; run < 200; run++) {
      const limit = { intensity: Math.floor(random() * 5), periodMs: 1 + Math.floor(random() * 50) };
      const window = new RestartWindow(limit);
      const expected = otp(limit.intensity, limit.periodMs);
      let now = 0;
      for (let i = 0; i < 50; i++) {
        now += Math.floor(random() * 20);
        expect(window.allowedInMs(now) === 0).toBe(window.count(now) < limit.intensity);
        expect(window.add(now)).toBe(expected(now));
      }
    }
  });
});

describe("the delays", () => {
  test("double up to the longest", () => {
    const backoff = { firstMs: 500, longestMs: 3_000 };
    const delays = [1, 2, 3, 4, 5].map((attempt) => backoffDelayMs(backoff, attempt, () => 0.5));
    expect(delays).toEqual([500, 1_000, 2_000, 3_000, 3_000]);
    expect(backoffDelayMs(backoff, 5_000, () => 0.5)).toBe(3_000);
  });

  test("are jittered within the given share", () => {
    const backoff = { firstMs: 1_000, longestMs: 8_000, jitter: 0.5 };
    expect(backoffDelayMs(backoff, 1, () => 0)).toBe(500);
    expect(backoffDelayMs(backoff, 2, () => 1)).toBe(2_000);
  });

  test("start over for a child that was up for long enough", () => {
    const rules = { backoff: { firstMs: 100, longestMs: 10_000 }, resetAfterMs: 1_000 };
    const delays = new RestartDelays(rules, () => 0);
    expect([0, 0, 999, 1_000, 0].map((upMs) => delays.next(upMs))).toEqual([100, 200, 400, 100, 200]);
  });

  test("that follow from a limit never slow a crash loop below it", () => {
    for (const intensity of [1, 2, 3, 10, 100, 10_000]) {
      for (const periodMs of [1, 1_000, 5_000, 60_000, 3_600_000]) {
        const rules = rulesFor({ intensity, periodMs });
        const window = new RestartWindow(rules.limit);
        const delays = new RestartDelays(rules, () => 0);
        let [now, restarts] = [0, 0];
        while (restarts <= intensity && window.add(now)) {
          now += delays.next(0);
          restarts++;
        }
        expect(restarts).toBe(intensity);
        expect(now).toBeLessThan(periodMs); // Half of it, but for rounding.
      }
    }
  });
});

describe("a single restarted thing", () => {
  test("waits longer each time, is given up, and has another chance after the period", async () => {
    const clock = new FakeClock();
    const limit = { intensity: 2, periodMs: 10_000 };
    const restarts = new Restarts(rulesFor(limit), { clock, random: () => 0 });
    restarts.started();
    expect([restarts.ended(), restarts.ended(), restarts.ended()]).toEqual([500, 1_000, null]);
    await clock.advance(10_000);
    expect(restarts.ended()).toBe(null);
    await clock.advance(1);
    expect(restarts.ended()).toBe(2_000);
  });

  test("that ran for a period restarts with the first delay; one that never started did not run", async () => {
    const clock = new FakeClock();
    const restarts = new Restarts(rulesFor({ intensity: 9, periodMs: 18_000 }), { clock, random: () => 0 });
    restarts.started();
    expect(restarts.ended()).toBe(500);
    restarts.started();
    await clock.advance(18_000);
    expect(restarts.ended()).toBe(500);
    await clock.advance(18_000);
    expect(restarts.ended()).toBe(1_000);
  });
});
