/** A test for programs that were started inside a run. */

import type { Env } from "../../config/environment/paths.ts";
import { isInside } from "../../os/process-table.ts";
import { isLimited, readTag } from "../../os/process-tag.ts";
import { serviceBehind } from "../../os/service-behind.ts";
import { SyscallError } from "../../plugin/index.ts";

/**
 * Whether this program was started inside a run (design §2), by its environment or by what the system shows. A run's
 * shell can't change the latter by other variables, folders, sessions, names or copies of the binary.
 */
export function isInsideRun(env: Env): boolean {
  return Boolean(env.RNIX_UNIT) || isInside();
}

/** Fails with this code inside a run. `message` says what is refused. */
export function refuseInside(env: Env, code: "PERMISSION" | "UNAVAILABLE", message: string): void {
  if (!isInsideRun(env)) return;
  // Another program may have set such a limit for the user's own shell.
  const limited = env.RNIX_UNIT === undefined && isLimited() && readTag("self") === null;
  throw new SyscallError(code, limited ? `${message} ${LIMITED}` : message);
}

const LIMITED =
  "This shell counts as inside a run, because it has a limit on real-time CPU (`ulimit -HR`), as programs of runs have. If it is yours, remove the limit: sudo prlimit --pid $$ --rttime=unlimited";

/** Fails with PERMISSION when a service has started this program, and the user has not typed at its terminal. */
export function requireTypedHere(): void {
  const service = serviceBehind(process.pid);
  if (service !== null) throw untyped(service);
}

/** Any program of a run could have asked the service. */
export function untyped(service: string): SyscallError {
  const message = `This is for a person: ${service} has started the command, and the user has not typed at its terminal. Any program can ask ${service} to start another. Type the command in a shell; in a new one, try again after some seconds.`;
  return new SyscallError("PERMISSION", message);
}
