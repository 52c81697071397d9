import { SIGPAUSE } from "../../kernel/types.ts";
import type { Caller } from "../caller.ts";
import { locateLive, refOf } from "../locate.ts";
import { requireOwnTree } from "../own-tree.ts";
import type { Answers, Payload } from "../protocol.ts";
import { toSignal } from "../signal.ts";
import type { System } from "../system.ts";

/** A signal to a process and all its descendants, SIGPAUSE by default (seeds 5.4). */
export async function signalTree(
  payload: Payload<"signal_tree">,
  system: System,
  caller: Caller,
): Promise<Answers["signal_tree"]> {
  const signal = toSignal(payload.signal ?? SIGPAUSE);
  const unit = caller.unit();
  const found = await locateLive(system, payload, "signalled");
  requireOwnTree(system, unit, found, "signalled");
  const affected = found.live ? system.kernel.signalTree(found.pid, signal) : 0;
  return { ...refOf(found.info), affected };
}
