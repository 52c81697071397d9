import { expect, test } from "bun:test";
import type { Clock } from "../../../src/lib/clock.ts";
import { LoopDelay } from "../../../src/server/daemon/daemon.ts";

/** A clock whose only timer fires when the test says, as late as it says. */
class LateClock implements Clock {
  #now = 0;
  #next: { at: number; f: () => void } | undefined;

  now(): number {
    return this.#now;
  }

  monotonic(): number {
    return this.#now;
  }

  timer(ms: number, f: () => void): { cancel(): void } {
    const next = { at: this.#now + ms, f };
    this.#next = next;
    return {
      cancel: () => {
        if (this.#next === next) this.#next = undefined;
      },
    };
  }

  get pending(): boolean {
    return this.#next !== undefined;
  }

  fire(lateMs: number): void {
    const next = this.#next;
    if (next === undefined) throw new Error("no timer is set");
    this.#next = undefined;
    this.#now = next.at + lateMs;
    next.f();
  }
}

test("the delay is how late the timers of the last minute fired, and none before the first", () => {
  const clock = new LateClock();
  const delay = new LoopDelay(clock);
  expect(delay.read()).toEqual({ p50: 0, max: 0 });
  for (const late of [3, 1, 40, 2, 5]) clock.fire(late);
  expect(delay.read()).toEqual({ p50: 3, max: 40 });
  for (let n = 0; n < 60; n++) clock.fire(7);
  expect(delay.read()).toEqual({ p50: 7, max: 7 });
  delay.close();
  expect(clock.pending).toBe(false);
});
