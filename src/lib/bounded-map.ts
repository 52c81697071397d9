/** A map with a limit, which keeps its newest entries. */

/** Setting an entry makes it the newest. Beyond the limit the oldest one is dropped. */
export class BoundedMap<K, V> extends Map<K, V> {
  readonly #most: number;
  readonly #dropped: (value: V) => void;

  /** `dropped` gets the value of each entry that is dropped for a newer one. */
  constructor(most: number, dropped: (value: V) => void = () => {}) {
    super();
    this.#most = most;
    this.#dropped = dropped;
  }

  override set(key: K, value: V): this {
    this.delete(key);
    super.set(key, value);
    const [oldest] = this;
    if (this.size <= this.#most || !oldest) return this;
    this.delete(oldest[0]);
    this.#dropped(oldest[1]);
    return this;
  }
}
