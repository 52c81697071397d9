import { SyscallError } from "../../plugin/index.ts";
import type { Answers, Payload } from "../../protocol/methods.ts";
import type { Caller } from "../connection/caller.ts";
import type { Services } from "../services.ts";

/**
 * Answers, and then ends the server (seeds 5.6): running processes are suspended when their tool calls under way have
 * had their time, with `now` killed, and with `restart` go on in the server that comes next. From inside a process's
 * shell it is refused: an agent does not stop what holds it.
 */
export function shutdown(
  { now = false, restart }: Payload<"shutdown">,
  { host }: Services,
  caller: Caller,
): Answers["shutdown"] {
  const unit = caller.unit();
  if (unit !== undefined) {
    throw new SyscallError(
      "PERMISSION",
      `The daemon can't be stopped from inside a run (${unit}). Stop it from a terminal of your own.`,
    );
  }
  const draining = host.stop(now, { restart });
  return { pid: process.pid, ...(draining && { draining }) };
}
