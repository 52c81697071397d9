/** A cache of one value. */

/**
 * Keeps the last value and returns it while the key stays the same. A provider package builds the schemas of its
 * answers in each model object, which is most of the cost of a request.
 */
export class Memo<T> {
  #last: { key: readonly unknown[]; value: T } | undefined;

  async get(key: readonly unknown[], make: () => Promise<T>): Promise<T> {
    if (this.#last?.key.every((part, index) => part === key[index])) return this.#last.value;
    const value = await make();
    this.#last = { key, value };
    return value;
  }
}
