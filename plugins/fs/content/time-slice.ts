/** Yields the thread between slices of long work. */

import { throwIfAborted } from "../../_lib/cancelled.ts";

/** Work of about 2 ms on a slow machine; one unit is one byte examined. */
const UNITS = 256 * 1024;

/** Divides work into slices and yields the thread after each, so that the kernel is not blocked. */
export class TimeSlice {
  readonly #signal: AbortSignal;
  #left = UNITS;

  constructor(signal: AbortSignal) {
    this.#signal = signal;
  }

  /** Counts finished work. True when the slice is used up: call `rest` before more work. */
  spent(units: number): boolean {
    this.#left -= units;
    return this.#left <= 0;
  }

  /** Yields the thread for a turn of the event loop. Fails once the signal has fired. */
  async rest(): Promise<void> {
    this.#left = UNITS;
    await new Promise<void>((resolve) => setImmediate(resolve));
    throwIfAborted(this.#signal);
  }
}
