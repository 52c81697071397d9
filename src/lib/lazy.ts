/** Parts that are made by their first use. */

import { SyscallError } from "../plugin/index.ts";

export interface Lazy<T> {
  /** The part; the first call makes it. Fails with CLOSED if its use ended before that. */
  (): T;
  /** Undefined before the first use. */
  made?: T;
  /** Ends its use, and makes nothing. Returns what was made, to be closed. */
  end(): T | undefined;
}

/** `make` may load the part's code, too. */
export function lazy<T>(make: () => T): Lazy<T> {
  let hasEnded = false;
  const end = (): T | undefined => {
    hasEnded = true;
    return part.made;
  };
  const part: Lazy<T> = Object.assign(
    () => {
      if (hasEnded && part.made === undefined) throw new SyscallError("CLOSED", "Rnix is shutting down.");
      part.made ??= make();
      return part.made;
    },
    { end },
  );
  return part;
}
