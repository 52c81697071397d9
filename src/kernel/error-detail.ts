import { SyscallError, type SyscallErrorDetail } from "../plugin/index.ts";

/** The same error with more said about where it happened. */
export function withDetail(
  error: SyscallError,
  more: Pick<SyscallErrorDetail, "syscall" | "pid" | "device">,
): SyscallError {
  const { code, message, cause, retryAfterMs, resetAtMs, retryable, tooLong, syscall, pid, device } = error;
  return new SyscallError(code, message, {
    cause,
    retryAfterMs,
    resetAtMs,
    retryable,
    tooLong,
    syscall,
    pid,
    device,
    ...more,
  });
}
