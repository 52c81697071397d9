/** Limits the requests that all keys have open together. */

/** The queue of one key, which shares the limit. */
interface Requester {
  /** Called when a request may be possible. Starts as many as are waiting and allowed. */
  admit(): void;
}

/**
 * The limit on model requests that a kernel has open at the same time, all providers together. Above the limit of its
 * HTTP client a request would wait unsent, with its deadlines running, and keep those of other providers waiting.
 * Keys are served in turn. A quarter is reserved for keys that have few requests open, so that one key with long
 * answers can't delay the first requests of another.
 */
export class OpenRequests {
  readonly #max: number;
  readonly #reserve: number;
  readonly #share: number;
  readonly #held = new Map<Requester, number>();
  /** Keys that were refused since their last request, the longest-waiting first. */
  readonly #waiting = new Set<Requester>();
  #open = 0;

  constructor(max = Infinity) {
    this.#max = max;
    this.#reserve = Math.floor(max / 4);
    this.#share = Math.max(1, Math.floor(max / 8));
  }

  /** If it returns false, `admit` is called when a request may be possible. */
  hasRoom(by: Requester): boolean {
    if (this.#isAllowed(by)) return true;
    this.#waiting.add(by);
    return false;
  }

  /** Counts one request that starts; `hasRoom` returned true. */
  take(by: Requester): void {
    this.#waiting.delete(by);
    this.#open++;
    this.#held.set(by, this.#heldBy(by) + 1);
  }

  /** Counts one request that ended. */
  release(by: Requester): void {
    const held = this.#heldBy(by) - 1;
    if (held > 0) this.#held.set(by, held);
    else this.#held.delete(by);
    this.#open--;
    for (const waiting of [...this.#waiting]) {
      if (this.#open >= this.#max) return;
      if (!this.#isAllowed(waiting)) continue;
      // If it still wants one, it goes to the end of the queue.
      this.#waiting.delete(waiting);
      waiting.admit();
    }
  }

  #isAllowed(by: Requester): boolean {
    const free = this.#max - this.#open;
    return free > 0 && (this.#heldBy(by) < this.#share || free > this.#reserve);
  }

  #heldBy(by: Requester): number {
    return this.#held.get(by) ?? 0;
  }
}
