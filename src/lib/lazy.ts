/** Parts that are made by their first use. */

export interface Lazy<T> {
  /** The part; the first call makes it. */
  (): T;
  /** Undefined before the first use. */
  made?: T;
}

export function lazy<T>(make: () => T): Lazy<T> {
  const part: Lazy<T> = () => {
    part.made ??= make();
    return part.made;
  };
  return part;
}
