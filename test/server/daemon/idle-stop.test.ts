import { expect, test } from "bun:test";
import type { Clock } from "../../../src/lib/clock.ts";
import { IdleStop } from "../../../src/server/daemon/daemon.ts";

/** A clock whose timer fires when a test says so, as late as it likes. */
class LateClock implements Clock {
  #ms = 0;
  #fire: () => void = () => undefined;

  now = () => this.#ms;
  monotonic = () => this.#ms;

  timer(_ms: number, f: () => void) {
    this.#fire = f;
    return { cancel: () => undefined };
  }

  fireAt(ms: number): void {
    this.#ms = ms;
    this.#fire();
  }
}

test("work that has just ended is no idle time, even if the check comes late", () => {
  const clock = new LateClock();
  let busy = true;
  let stops = 0;
  new IdleStop({ clock, afterMs: 300, everyMs: 50, busy: () => busy, stop: () => void stops++ });
  clock.fireAt(50);
  busy = false;
  clock.fireAt(1000);
  expect(stops).toBe(0);
  clock.fireAt(1299);
  expect(stops).toBe(0);
  clock.fireAt(1300);
  expect(stops).toBe(1);
});
