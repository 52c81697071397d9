/** What shares the limit: the queue of one key. */
export interface Requester {
  /** A request may be possible now. Takes as many as it needs and may. */
  next(): void;
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
  /** Refused since their last request, the longest-waiting first. */
  readonly #wanting = new Set<Requester>();
  #open = 0;

  constructor(max = Infinity) {
    this.#max = max;
    this.#reserve = Math.floor(max / 4);
    this.#share = Math.max(1, Math.floor(max / 8));
  }

  /** False: not now. `next` is called when it may be possible. */
  hasRoom(by: Requester): boolean {
    if (this.#mayTake(by)) return true;
    this.#wanting.add(by);
    return false;
  }

  /** One request begins, for which there is room. */
  take(by: Requester): void {
    this.#wanting.delete(by);
    this.#open++;
    this.#held.set(by, this.#heldBy(by) + 1);
  }

  /** One request of it has ended. */
  give(by: Requester): void {
    const held = this.#heldBy(by) - 1;
    if (held > 0) this.#held.set(by, held);
    else this.#held.delete(by);
    this.#open--;
    for (const waiting of [...this.#wanting]) {
      if (this.#open >= this.#max) return;
      if (!this.#mayTake(waiting)) continue;
      // It stands at the end of the queue again if it still wants one.
      this.#wanting.delete(waiting);
      waiting.next();
    }
  }

  #mayTake(by: Requester): boolean {
    const free = this.#max - this.#open;
    return free > 0 && (this.#heldBy(by) < this.#share || free > this.#reserve);
  }

  #heldBy(by: Requester): number {
    return this.#held.get(by) ?? 0;
  }
}
