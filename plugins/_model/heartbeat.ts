/** Reports that a server is alive while no part of its answer is complete. */

/** Bytes arrived that complete no part: a keep-alive comment, a piece of a long line. */
export const ALIVE = Symbol("alive");

type Pending<T> = PromiseWithResolvers<T | typeof ALIVE | undefined>;

/**
 * The parts of an answer, and ALIVE between them while bytes arrive. A working server may send no part for minutes, and
 * a provider package does not report the comments that it skips.
 */
export class Heartbeat<T> {
  readonly #readPart: () => Promise<T | undefined>;
  #pending: Pending<T> | undefined;
  #isReading = false;
  /** A result that arrived while no call of `next` was pending. */
  #arrived: ((pending: Pending<T>) => void) | undefined;
  #isChecking = false;

  /** `readPart` gives the next part, undefined at the end. It is called for one part at a time. */
  constructor(readPart: () => Promise<T | undefined>) {
    this.#readPart = readPart;
  }

  /** The next part, or ALIVE; undefined at the end. One call at a time. */
  next(): Promise<T | typeof ALIVE | undefined> {
    const pending: Pending<T> = Promise.withResolvers();
    const arrived = this.#arrived;
    this.#arrived = undefined;
    if (arrived !== undefined) {
      arrived(pending);
      return pending.promise;
    }
    this.#pending = pending;
    if (!this.#isReading) this.#read();
    return pending.promise;
  }

  /** Bytes have arrived. If they complete no part by the next turn of the event loop, the pending call gets ALIVE. */
  onBytes(): void {
    const pending = this.#pending;
    if (this.#isChecking || pending === undefined) return;
    this.#isChecking = true;
    setImmediate(() => {
      this.#isChecking = false;
      if (pending !== this.#pending) return;
      this.#pending = undefined;
      pending.resolve(ALIVE);
    });
  }

  #read(): void {
    this.#isReading = true;
    this.#readPart().then(
      (part) => this.#settle((pending) => pending.resolve(part)),
      (error: unknown) => this.#settle((pending) => pending.reject(error)),
    );
  }

  #settle(settle: (pending: Pending<T>) => void): void {
    this.#isReading = false;
    const pending = this.#pending;
    this.#pending = undefined;
    if (pending === undefined) this.#arrived = settle;
    else settle(pending);
  }
}
