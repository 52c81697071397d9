/**
 * A bounded queue between one writer and one reader. A full queue drops the new item and counts it: the
 * writer is never slowed by who listens (seeds 1.5, "Delivery Mechanism"). What must arrive is given to
 * `end`, which has room of its own.
 */
export class Channel<T> implements AsyncIterable<T> {
  readonly #capacity: number;
  readonly #items: T[] = [];
  #wake: (() => void) | undefined;
  #ended = false;
  #onClose: (() => void) | undefined;
  dropped = 0;

  constructor(capacity = 256, onClose?: () => void) {
    this.#capacity = capacity;
    this.#onClose = onClose;
  }

  push(item: T): void {
    if (this.#ended) return;
    if (this.#items.length >= this.#capacity) {
      this.dropped++;
      return;
    }
    this.#items.push(item);
    this.#notify();
  }

  /** No more will come. Safe to call again. `last` is delivered however full the queue is. */
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
      // The reader has gone: stop collecting for it.
      this.end();
      this.#items.length = 0;
    }
  }

  #notify(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }
}
