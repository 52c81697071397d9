/** Names the syscall and the process of an error. */

import { messageOf, withDetail } from "../../lib/error-detail.ts";
import { type Code, SyscallError } from "../../plugin/index.ts";

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
