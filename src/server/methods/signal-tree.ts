import { SIGPAUSE } from "../../kernel/types.ts";
import type { Answers, Payload } from "../../protocol/methods.ts";
import type { Caller } from "../connection/caller.ts";
import type { Services } from "../services.ts";
import { endSuspended } from "./end-suspended.ts";
import { findLiveRun, refOf } from "./find-run.ts";
import { parseSignal } from "./parse-signal.ts";
import { requireDescendant } from "./require-descendant.ts";

/**
 * A signal to a process and all its descendants, SIGPAUSE by default (seeds 5.4). One that is suspended has ended by TERM,
 * INT or KILL, with those that were laid down with it.
 */
export async function signalTree(
  payload: Payload<"signal_tree">,
  system: Services,
  caller: Caller,
): Promise<Answers["signal_tree"]> {
  const signal = parseSignal(payload.signal ?? SIGPAUSE);
  const unit = caller.unit();
  const found = await findLiveRun(system, payload, "signalled");
  requireDescendant(system, unit, found, "signalled");
  if (found.live)
    return { ...refOf(found.info), affected: system.kernel.signals.signalTree(found.pid, signal) };
  const affected = await endSuspended(system, found, signal, true);
  return { ...refOf(found.info), affected, ...(affected > 0 && { was_suspended: true as const }) };
}
