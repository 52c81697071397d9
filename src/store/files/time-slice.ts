/** Work of the daemon's thread is given in pieces of so many milliseconds (design §12: nothing over 5). */
const SLICE_MS = 3;

/** Lets others have the thread when this piece of work has had it for long enough. Call it within long loops. */
export class TimeSlices {
  #since = performance.now();

  /** Undefined, which costs no turn of the event loop, as long as there is time left. */
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
