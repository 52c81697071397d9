/** A wait that counts the time a machine sleeps. */

import type { Clock } from "../../lib/clock.ts";

/**
 * A wait that ends `ms` from now: when that much monotonic time has passed, or when the wall clock reaches the end.
 * So the time a machine sleeps counts, and setting the clock back does not prolong the wait.
 */
export class HoldWindow {
  /** Unix time in ms. */
  readonly endsAt: number;
  readonly #clock: Clock;
  readonly #until: number;

  constructor(clock: Clock, ms: number) {
    this.#clock = clock;
    this.#until = clock.monotonic() + ms;
    this.endsAt = clock.now() + ms;
  }

  /** 0 after the end. */
  get leftMs(): number {
    return Math.max(0, Math.min(this.#until - this.#clock.monotonic(), this.endsAt - this.#clock.now()));
  }
}
