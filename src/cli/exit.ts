/** The exit codes of commands, and which error leads to which code. */

import { type Code, SyscallError } from "../plugin/errors.ts";

/** Exit codes of the commands. A run's own exit code is passed on unchanged. */
export const EXIT = {
  ok: 0,
  error: 1,
  usage: 64,
  unavailable: 69,
  suspended: 75,
  interrupted: 130,
} as const;

/** The exit code of an error that ends a command before there is a run, or without one. */
export function exitCodeOf(error: unknown): number {
  return CODES[errorCodeOf(error)] ?? EXIT.error;
}

/** The stable code of an error; INTERNAL for an error that is no SyscallError. The client maps the protocol's codes to these. */
export function errorCodeOf(error: unknown): Code {
  return error instanceof SyscallError ? error.code : "INTERNAL";
}

/** A usage error: exit 64. */
export function usageError(message: string): SyscallError {
  return new SyscallError("INVALID", message);
}

const CODES: Partial<Record<Code, number>> = {
  INVALID: EXIT.usage,
  NOT_FOUND: EXIT.usage,
  UNAVAILABLE: EXIT.unavailable,
  // No space for records, or too many runs: the same command may succeed later.
  EXHAUSTED: EXIT.unavailable,
  CANCELLED: EXIT.interrupted,
};
