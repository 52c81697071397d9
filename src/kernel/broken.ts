import type { SyscallError } from "../plugin/index.ts";
import type { ExitReason } from "./types.ts";

/** What ends a run from inside a step: the loop makes it the run's outcome. */
export class Broken extends Error {
  readonly reason: ExitReason;
  readonly error: SyscallError;

  constructor(reason: ExitReason, error: SyscallError) {
    super(error.message, { cause: error });
    this.reason = reason;
    this.error = error;
  }
}
