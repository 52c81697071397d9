/** Shares one piece of work among the callers that want it at the same time. */

/** Runs one work at a time. A caller that comes during one waits for the next: that one may have missed its change. */
export class Coalesced<T> {
  #now: Promise<T> | undefined;
  #next: Promise<T> | undefined;

  run(work: () => Promise<T>): Promise<T> {
    if (!this.#now) return this.#begin(work);
    this.#next ??= this.#now.then(nothing, nothing).then(() => {
      this.#next = undefined;
      return this.#begin(work);
    });
    return this.#next;
  }

  #begin(work: () => Promise<T>): Promise<T> {
    this.#now = work().finally(() => {
      this.#now = undefined;
    });
    return this.#now;
  }
}

function nothing(): void {}
