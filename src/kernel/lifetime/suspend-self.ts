/** Suspends a process on its own request. */

import type { Debugger } from "../debugger.ts";
import type { Process } from "../process/process.ts";
import { suspendedFor } from "../process/verdict.ts";
import type { SuspendCause, Wake } from "../types.ts";

/** Suspends a process by itself in the middle of a step; its task ends soon after. */
export function suspendSelf(
  debug: Debugger,
  proc: Process,
  reason: string,
  wake: Wake,
  cause?: SuspendCause,
): void {
  const args = { pid: proc.pid, reason, wake };
  debug.callNow(proc, proc, "Suspend", args, () => proc.stop(suspendedFor(reason, { wake, cause })));
}
