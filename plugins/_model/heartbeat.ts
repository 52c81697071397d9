/** Something has come of which no part was made: a comment that keeps the line open, a piece of a long line. */
export const ALIVE = Symbol("alive");

type Wanted<T> = PromiseWithResolvers<T | typeof ALIVE | undefined>;

/**
 * The parts of an answer as they come, and in between that bytes go on coming: a server that is at work may have
 * nothing to say for minutes, and a provider package does not tell what it leaves out.
 */
export class Heartbeat<T> {
  readonly #take: () => Promise<T | undefined>;
  #wanted: Wanted<T> | undefined;
  #isReading = false;
  /** What has come while nobody wanted it. */
  #come: ((wanted: Wanted<T>) => void) | undefined;
  #isLooking = false;

  /** `take` gives the next part, undefined at the end; it is asked for one at a time. */
  constructor(take: () => Promise<T | undefined>) {
    this.#take = take;
  }

  /** The next part, or ALIVE; undefined at the end. One at a time. */
  next(): Promise<T | typeof ALIVE | undefined> {
    const wanted: Wanted<T> = Promise.withResolvers();
    const come = this.#come;
    this.#come = undefined;
    if (come !== undefined) {
      come(wanted);
      return wanted.promise;
    }
    this.#wanted = wanted;
    if (!this.#isReading) this.#read();
    return wanted.promise;
  }

  /** Bytes have come. When no part has been made of them once all that they set going has run, that is told. */
  heard(): void {
    const wanted = this.#wanted;
    if (this.#isLooking || wanted === undefined) return;
    this.#isLooking = true;
    setImmediate(() => {
      this.#isLooking = false;
      if (wanted !== this.#wanted) return;
      this.#wanted = undefined;
      wanted.resolve(ALIVE);
    });
  }

  #read(): void {
    this.#isReading = true;
    this.#take().then(
      (part) => this.#has((wanted) => wanted.resolve(part)),
      (error: unknown) => this.#has((wanted) => wanted.reject(error)),
    );
  }

  #has(come: (wanted: Wanted<T>) => void): void {
    this.#isReading = false;
    const wanted = this.#wanted;
    this.#wanted = undefined;
    if (wanted === undefined) this.#come = come;
    else come(wanted);
  }
}
