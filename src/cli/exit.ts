import { type Code, SyscallError } from "../plugin/index.ts";

/** What the shell is told (design §2, "How a run ends"). A run's own code is passed on as it is. */
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

/** The stable code of an error; INTERNAL for what is not ours. The client has made the wire's codes into these. */
export function errorCodeOf(error: unknown): Code {
  return error instanceof SyscallError ? error.code : "INTERNAL";
}

/** A mistake in what was typed: exit 64. */
export function usageError(message: string): SyscallError {
  return new SyscallError("INVALID", message);
}

const CODES: Partial<Record<Code, number>> = {
  INVALID: EXIT.usage,
  NOT_FOUND: EXIT.usage,
  UNAVAILABLE: EXIT.unavailable,
  // Nowhere to record a run, or as many as may be: another time the same command does it.
  EXHAUSTED: EXIT.unavailable,
  CANCELLED: EXIT.interrupted,
};
