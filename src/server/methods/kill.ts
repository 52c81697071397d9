import { SIGTERM } from "../../kernel/types.ts";
import type { Answers, Payload } from "../../protocol/methods.ts";
import type { Caller } from "../connection/caller.ts";
import type { Services } from "../services.ts";
import { endSuspended } from "./end-suspended.ts";
import { findLiveRun, refOf } from "./find-run.ts";
import { parseSignal } from "./parse-signal.ts";
import { requireDescendant } from "./require-descendant.ts";

/**
 * A signal to one process, SIGTERM by default. One that is suspended has ended by it, and is not gone on with by itself;
 * to one that has ended it is nothing (seeds 1.2, Kill).
 */
export async function kill(
  payload: Payload<"kill">,
  system: Services,
  caller: Caller,
): Promise<Answers["kill"]> {
  const signal = parseSignal(payload.signal ?? SIGTERM);
  const unit = caller.unit();
  const found = await findLiveRun(system, payload, "signalled");
  requireDescendant(system, unit, found, "signalled");
  if (found.live) system.kernel.processes.kill(found.pid, signal);
  const suspended = await endSuspended(system, found, signal, false);
  if (suspended > 0) return { ...refOf(found.info), affected: suspended, was_suspended: true };
  return { ...refOf(found.info), affected: found.info.ended_at_ms === null ? 1 : 0 };
}
