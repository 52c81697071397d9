import type { Clock } from "../../lib/clock.ts";

/**
 * A time that ends `ms` from now. It is over when so much time has passed, or when the time of day it ends at has
 * come: a machine that slept has waited too, and a clock that is set back makes it no longer.
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

  /** 0 when it is over. */
  get leftMs(): number {
    return Math.max(0, Math.min(this.#until - this.#clock.monotonic(), this.endsAt - this.#clock.now()));
  }
}
