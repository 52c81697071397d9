/** Small caches: a part that is made once, the last of equal values, the newest entries of a map. */

import { SyscallError } from "../plugin/errors.ts";

export interface Lazy<T> {
  /** The part; the first call makes it. Fails with CLOSED if its use ended before that. */
  (): T;
  /** Undefined before the first use. */
  made?: T;
  /** Ends its use, and makes nothing. Returns what was made, to be closed. */
  end(): T | undefined;
}

/** A part that is made by its first use; `make` may load its code, too. */
export function lazy<T>(make: () => T): Lazy<T> {
  let hasEnded = false;
  const part: Lazy<T> = () => {
    if (hasEnded && part.made === undefined) throw new SyscallError("CLOSED", "Rnix is shutting down.");
    part.made ??= make();
    return part.made;
  };
  part.end = () => {
    hasEnded = true;
    return part.made;
  };
  return part;
}

/** Adds parts as properties: each is made when it is first read. */
export function addLazy<T extends object, P extends Record<string, Lazy<unknown>>>(
  object: T,
  parts: P,
): asserts object is T & { readonly [Name in keyof P]: ReturnType<P[Name]> } {
  for (const [name, get] of Object.entries(parts))
    Object.defineProperty(object, name, { get, enumerable: true });
}

/**
 * Thousands of runs hold settings, an environment and texts that are equal to those of the run before: they share its
 * value, which nothing may change.
 */
export class LastEqual<T> {
  #last: T | undefined;

  /** The value before, if this one equals it. */
  of(value: T): T {
    if (this.#last === undefined || !Bun.deepEquals(this.#last, value, true)) this.#last = value;
    return this.#last;
  }
}

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
