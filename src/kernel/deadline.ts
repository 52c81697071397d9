import type { Clock, Timer } from "./clock.ts";

/** A wall-time limit that does not run while its process is paused. Owned, and stopped, by the process. */
export class Deadline {
  readonly #clock: Clock;
  readonly #expired: () => void;
  #leftMs: number;
  #startedAt = 0;
  #timer: Timer | undefined;

  constructor(clock: Clock, ms: number, expired: () => void) {
    this.#clock = clock;
    this.#leftMs = ms;
    this.#expired = expired;
    this.run();
  }

  run(): void {
    if (this.#timer) return;
    this.#startedAt = this.#clock.monotonic();
    this.#timer = this.#clock.timer(this.#leftMs, this.#expired);
  }

  stop(): void {
    if (!this.#timer) return;
    this.#timer.cancel();
    this.#timer = undefined;
    this.#leftMs -= this.#clock.monotonic() - this.#startedAt;
  }
}
