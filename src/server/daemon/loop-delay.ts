/** Measures how late timers fire. */

import type { Clock, Timer } from "../../lib/clock.ts";

const EVERY_MS = 1000;
const SAMPLES = 60;

/** Measures how late timers fire: the delay that synchronous work in the server's thread causes. */
export class LoopDelay {
  readonly #clock: Clock;
  readonly #samples: number[] = [];
  #timer: Timer | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#arm();
  }

  /** The delays of the last minute, in ms. */
  read(): { p50: number; max: number } {
    const sorted = [...this.#samples].sort((a, b) => a - b);
    return { p50: sorted[Math.floor(sorted.length / 2)] ?? 0, max: sorted.at(-1) ?? 0 };
  }

  close(): void {
    this.#timer?.cancel();
  }

  #arm(): void {
    const due = this.#clock.monotonic() + EVERY_MS;
    this.#timer = this.#clock.timer(EVERY_MS, () => {
      this.#samples.push(Math.max(0, Math.round((this.#clock.monotonic() - due) * 100) / 100));
      if (this.#samples.length > SAMPLES) this.#samples.shift();
      this.#arm();
    });
  }
}
