/** The errors of the kernel: those that end a run, and the syscall of an error. */

import { messageOf, withDetail } from "../../lib/error-detail.ts";
import { type Code, SyscallError } from "../../plugin/index.ts";
import type { ExitReason } from "../types.ts";

/** Ends a run from within a step: the reasoning loop turns it into the run's outcome. */
export class RunError extends Error {
  readonly reason: ExitReason;
  readonly error: SyscallError;

  constructor(reason: ExitReason, error: SyscallError) {
    super(error.message, { cause: error });
    this.reason = reason;
    this.error = error;
  }
}

/** A failed write ends the run before the effects that it should have recorded. */
export function recordOrFail<T>(write: () => T): T {
  try {
    return write();
  } catch (thrown) {
    throw thrown instanceof SyscallError ? new RunError("record_error", thrown) : thrown;
  }
}

/**
 * The same error with the syscall and the process it belongs to. A foreign one becomes INTERNAL, but for what
 * the platform's own signals are aborted with.
 */
export function namedError(thrown: unknown, syscall: string, pid: number): SyscallError {
  if (!(thrown instanceof SyscallError)) {
    const code = thrown instanceof DOMException ? (ABORTS.get(thrown.name) ?? "INTERNAL") : "INTERNAL";
    return new SyscallError(code, `${syscall}: ${messageOf(thrown)}`, { cause: thrown, syscall, pid });
  }
  if (thrown.syscall !== undefined) return thrown;
  return withDetail(thrown, { syscall, pid });
}

/** What `AbortController.abort()` and `AbortSignal.timeout()` leave as a signal's reason. */
const ABORTS: ReadonlyMap<string, Code> = new Map([
  ["AbortError", "CANCELLED"],
  ["TimeoutError", "TIMEOUT"],
]);
