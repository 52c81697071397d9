/** Splits long work of the daemon's thread into time slices. */

/** Length of a time slice. No work may block the daemon's thread for more than 5 ms. */
const SLICE_MS = 3;

/** Yields the thread after each time slice. Call `pause` within long loops. */
export class TimeSlices {
  #since = performance.now();

  /** Returns undefined, without a turn of the event loop, while the slice lasts. */
  pause(): Promise<void> | undefined {
    if (performance.now() - this.#since < SLICE_MS) return undefined;
    return new Promise((resolve) =>
      setImmediate(() => {
        this.#since = performance.now();
        resolve();
      }),
    );
  }
}
