import { SyscallError } from "../../plugin/index.ts";
import type { ExitReason } from "../types.ts";

/** What ends a run from inside a step: the loop makes it the run's outcome. */
export class RunError extends Error {
  readonly reason: ExitReason;
  readonly error: SyscallError;

  constructor(reason: ExitReason, error: SyscallError) {
    super(error.message, { cause: error });
    this.reason = reason;
    this.error = error;
  }
}

/** What cannot be written down ends the run before its effects. */
export function recordOrFail<T>(write: () => T): T {
  try {
    return write();
  } catch (thrown) {
    throw thrown instanceof SyscallError ? new RunError("record_error", thrown) : thrown;
  }
}
