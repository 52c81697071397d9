import type { Clock, Timer } from "../../src/lib/clock.ts";

/** A clock that knows how many of its timers neither fired nor were cancelled. */
export class CountingClock implements Clock {
  readonly #clock: Clock;
  readonly #timers = new Set<Timer>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get pending(): number {
    return this.#timers.size;
  }

  now(): number {
    return this.#clock.now();
  }

  monotonic(): number {
    return this.#clock.monotonic();
  }

  timer(ms: number, f: () => void): Timer {
    const timer = this.#clock.timer(ms, () => {
      this.#timers.delete(timer);
      f();
    });
    this.#timers.add(timer);
    return {
      cancel: () => {
        this.#timers.delete(timer);
        timer.cancel();
      },
    };
  }
}
