/** The error of every call: one class, and its stable codes. */

export const CODES = [
  "NOT_FOUND",
  "INVALID",
  "PERMISSION",
  "TIMEOUT",
  "DRIVER",
  "INTERNAL",
  "CLOSED",
  "EXHAUSTED",
  "UNAVAILABLE",
  "CANCELLED",
] as const;
/** The stable error codes. Programs decide by the code, never by a message's text. */
export type Code = (typeof CODES)[number];

export interface SyscallErrorDetail {
  cause?: unknown;
  /** How long the other side asks to wait before a retry. */
  retryAfterMs?: number;
  /** Unix time in ms at which a quota window ends. */
  resetAtMs?: number;
  /** True when a retry of the same request may succeed. Absent: the code decides. */
  retryable?: boolean;
  /** The conversation is too long for the model. A shorter one may succeed. */
  tooLong?: boolean;
  /** What the call had produced until then: the model is shown it with the error, and it is in the record. */
  output?: string;
  /** Set by the kernel: the syscall that failed, its process and its device. */
  syscall?: string;
  pid?: number;
  device?: string;
}

/** The only error class. The message says what was expected, what came and what to do. */
export class SyscallError extends Error {
  override readonly name = "SyscallError";
  readonly code: Code;
  readonly retryAfterMs?: number;
  readonly resetAtMs?: number;
  readonly retryable?: boolean;
  readonly tooLong?: boolean;
  readonly output?: string;
  readonly syscall?: string;
  readonly pid?: number;
  readonly device?: string;

  constructor(code: Code, message: string, detail: SyscallErrorDetail = {}) {
    super(message, detail.cause === undefined ? undefined : { cause: detail.cause });
    this.code = code;
    this.retryAfterMs = detail.retryAfterMs;
    this.resetAtMs = detail.resetAtMs;
    this.retryable = detail.retryable;
    this.tooLong = detail.tooLong;
    this.output = detail.output;
    this.syscall = detail.syscall;
    this.pid = detail.pid;
    this.device = detail.device;
  }
}
