/** An error that ends a run. */

import { SyscallError } from "../../plugin/index.ts";
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
