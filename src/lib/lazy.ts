/** Parts that are made when they are first used. */

import { SyscallError } from "../plugin/index.ts";

export interface Lazy<T> {
  /** Makes it at the first call. Fails with CLOSED if it was ended before. */
  (): T;
  /** Ends its use: returns what was made, to be closed. */
  end(): T | undefined;
}

/** A part that is made at its first use; `make` may load its code, too. Its end does not make it. */
export function lazy<T extends object>(make: () => T): Lazy<T> {
  let made: T | undefined;
  let ended = false;
  const get = (): T => {
    if (ended && !made) throw new SyscallError("CLOSED", "Rnix is shutting down.");
    made ??= make();
    return made;
  };
  return Object.assign(get, {
    end() {
      ended = true;
      return made;
    },
  });
}
