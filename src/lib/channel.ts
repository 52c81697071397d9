/** A bounded queue between a producer and a consumer. */

/** How items are coalesced when the queue is half full. */
interface Coalesce<T> {
  /** Joins two consecutive items; undefined if they can't be joined. */
  join?(last: T, next: T): T | undefined;
  /** Whether a queued item says nothing more once `next` is queued: it is removed. */
  supersedes?(queued: T, next: T): boolean;
}

/**
 * A bounded queue between one writer and one reader. A full queue drops new items and counts them, so a slow reader
 * never delays the writer. The item given to `end` is always delivered.
 */
export class Channel<T> implements AsyncIterable<T> {
  readonly #capacity: number;
  readonly #items: T[] = [];
  #wake: (() => void) | undefined;
  #ended = false;
  #onClose: (() => void) | undefined;
  readonly #coalesce: Coalesce<T>;
  dropped = 0;
  /** Its reader only looks: nothing waits for what it may send. */
  readonly isPassive: boolean = false;

  constructor(capacity = 256, onClose?: () => void, coalesce: Coalesce<T> = {}) {
    this.#capacity = capacity;
    this.#onClose = onClose;
    this.#coalesce = coalesce;
  }

  push(item: T): void {
    if (this.#ended || this.#joined(item)) return;
    if (this.#items.length >= this.#capacity) {
      this.dropped++;
      return;
    }
    this.#items.push(item);
    this.#notify();
  }

  /** Ends the queue. Safe to call again. `last` is delivered even if the queue is full. */
  end(last?: T): void {
    if (this.#ended) return;
    this.#ended = true;
    if (last !== undefined) this.#items.push(last);
    this.#notify();
    this.#onClose?.();
    this.#onClose = undefined;
  }

  get ended(): boolean {
    return this.#ended;
  }

  async *[Symbol.asyncIterator](): AsyncIterator<T> {
    try {
      for (;;) {
        const item = this.#items.shift();
        if (item !== undefined) {
          yield item;
          continue;
        }
        if (this.#ended) return;
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    } finally {
      // The reader has stopped: collects nothing more for it.
      this.end();
      this.#items.length = 0;
    }
  }

  #joined(next: T): boolean {
    const last = this.#items.at(-1);
    if (last === undefined || this.#items.length < this.#capacity / 2) return false;
    const joined = this.#coalesce.join?.(last, next);
    if (joined === undefined) {
      this.#removeSuperseded(next);
      return false;
    }
    this.#items[this.#items.length - 1] = joined;
    return true;
  }

  #removeSuperseded(next: T): void {
    const { supersedes } = this.#coalesce;
    const at = supersedes ? this.#items.findIndex((queued) => supersedes(queued, next)) : -1;
    if (at >= 0) this.#items.splice(at, 1);
  }

  #notify(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }
}
