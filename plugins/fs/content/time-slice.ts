import { heed } from "../errors.ts";

/** About what a slow machine does in 2 ms, in units of one byte looked at. */
const UNITS = 256 * 1024;

/** Keeps work in slices: after each the thread is given back, so that nothing blocks the kernel's. */
export class TimeSlice {
  readonly #signal: AbortSignal;
  #left = UNITS;

  constructor(signal: AbortSignal) {
    this.#signal = signal;
  }

  /** Counts work that was done. True when a slice is over: `rest` before going on. */
  spent(units: number): boolean {
    this.#left -= units;
    return this.#left <= 0;
  }

  /** Gives the thread back for a turn; fails once the signal has fired. */
  async rest(): Promise<void> {
    this.#left = UNITS;
    await new Promise<void>((resolve) => setImmediate(resolve));
    heed(this.#signal);
  }
}
