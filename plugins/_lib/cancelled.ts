/** The end of a call whose signal has fired. */

import { SyscallError } from "rnix/plugin";

/** Throws the error of the signal once it has fired. */
export function throwIfAborted(signal: AbortSignal): void {
  if (signal.aborted) throw cancelled(signal.reason);
}

/** The reason of a signal as an error: the kernel's own, or CANCELLED. */
export function cancelled(reason: unknown): SyscallError {
  if (reason instanceof SyscallError) return reason;
  return new SyscallError("CANCELLED", "The call was cancelled.", { cause: reason });
}
