/** Gives equal values that follow each other as one value. */

/**
 * Thousands of runs hold settings, an environment and texts that are equal to those of the run before: they share its
 * value, which nothing may change.
 */
export class LastEqual<T> {
  #last: T | undefined;

  /** The value before, if this one equals it. */
  of(value: T): T {
    if (this.#last === undefined || !Bun.deepEquals(this.#last, value, true)) this.#last = value;
    return this.#last;
  }
}
