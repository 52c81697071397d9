import { SIGPAUSE } from "../../kernel/types.ts";
import { locateLive, refOf } from "../locate.ts";
import type { Answers, Payload } from "../protocol.ts";
import { toSignal } from "../signal.ts";
import type { System } from "../system.ts";

/** A signal to a process and all its descendants, SIGPAUSE by default (seeds 5.4). */
export async function signalTree(
  payload: Payload<"signal_tree">,
  system: System,
): Promise<Answers["signal_tree"]> {
  const signal = toSignal(payload.signal ?? SIGPAUSE);
  const found = await locateLive(system, payload, "signalled");
  const affected = found.live ? system.kernel.signalTree(found.pid, signal) : 0;
  return { ...refOf(found.info), affected };
}
