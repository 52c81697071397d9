/** Parses the number of a signal. */

import type { Signal } from "../../../lib/signals.ts";
import { SyscallError } from "../../../plugin/index.ts";

/** Parses the number of a signal. Fails with INVALID for an unknown one. */
export function parseSignal(number: number): Signal {
  switch (number) {
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
      return number;
    default: {
      const message = `signal: expected 1 (TERM), 2 (KILL), 3 (INT), 4 (PAUSE) or 5 (RESUME); got ${number}.`;
      throw new SyscallError("INVALID", message);
    }
  }
}
