/** A cache of one value. */

/** Keeps the last value and returns it while the key stays the same. */
export class Memo<T> {
  #last: { key: readonly unknown[]; value: T } | undefined;

  async get(key: readonly unknown[], make: () => Promise<T>): Promise<T> {
    if (this.#last?.key.every((part, index) => part === key[index])) return this.#last.value;
    const value = await make();
    this.#last = { key, value };
    return value;
  }
}
