/** The message and the system's code of what was thrown, and copies of an error with more detail. */

import { SyscallError, type SyscallErrorDetail } from "../plugin/errors.ts";

/** The message of an error; anything else that was thrown, as text. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** For a log: the stack of an error; anything else that was thrown, as text. */
export function stackOf(thrown: unknown): string {
  return thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown);
}

/** For a log: the message of an expected error, the stack of any other. */
export function logTextOf(thrown: unknown): string {
  return thrown instanceof SyscallError ? thrown.message : stackOf(thrown);
}

/** The error if it is ours; any other is a defect, and is thrown again. */
export function expected(thrown: unknown): SyscallError {
  if (thrown instanceof SyscallError) return thrown;
  throw thrown;
}

/** The system's code of an error (ENOENT, EACCES); undefined for an error of another kind. */
export function errnoOf(thrown: unknown): string | undefined {
  if (thrown instanceof SyscallError || !(thrown instanceof Error) || !("code" in thrown)) return undefined;
  return typeof thrown.code === "string" ? thrown.code : undefined;
}

/** The same error with more detail about where it happened. */
export function withDetail(
  error: SyscallError,
  more: Pick<SyscallErrorDetail, "syscall" | "pid" | "device">,
): SyscallError {
  return new SyscallError(error.code, error.message, { ...detailOf(error), ...more });
}

/** The same error with another message and without its cause. */
export function withMessage(error: SyscallError, message: string): SyscallError {
  return new SyscallError(error.code, message, { ...detailOf(error), cause: undefined });
}

/** The same error with what the call had produced until then. */
export function withOutput(error: SyscallError, output: string | undefined): SyscallError {
  return new SyscallError(error.code, error.message, { ...detailOf(error), output });
}

/** What an error says beside its code and message. */
export function detailOf(error: SyscallError): SyscallErrorDetail {
  const { cause, retryAfterMs, resetAtMs, retryable, tooLong, output, syscall, pid, device } = error;
  return { cause, retryAfterMs, resetAtMs, retryable, tooLong, output, syscall, pid, device };
}
