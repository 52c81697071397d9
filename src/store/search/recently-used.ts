/** A bounded set of open things by name: the least recently used one is closed. */

export class RecentlyUsed<T extends { close(): void }> {
  /** A map keeps the order of insertion: the first one is the least recently used. */
  readonly #open = new Map<string, T>();
  readonly #max: number;
  readonly #make: (name: string) => T;

  constructor(max: number, make: (name: string) => T) {
    this.#max = max;
    this.#make = make;
  }

  of(name: string): T {
    const one = this.#open.get(name) ?? this.#make(name);
    this.#open.delete(name);
    this.#open.set(name, one);
    for (const [oldest, used] of this.#open) {
      if (this.#open.size <= this.#max) break;
      this.#open.delete(oldest);
      used.close();
    }
    return one;
  }

  open(): T[] {
    return [...this.#open.values()];
  }

  close(): void {
    for (const one of this.#open.values()) one.close();
    this.#open.clear();
  }
}
