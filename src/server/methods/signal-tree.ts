/** The method signal_tree. */

import { z } from "zod";
import { SIGPAUSE } from "../../lib/signals.ts";
import { refOf, Target } from "../../protocol/fields.ts";
import type { ProcRef } from "../../protocol/methods.ts";
import { method } from "./method.ts";
import { endSuspended, parseSignal } from "./shared/end-suspended.ts";
import { findOwnRun } from "./shared/find-own-run.ts";

/**
 * Signals a process and all its descendants, by default with SIGPAUSE (seeds 5.4). TERM, INT and KILL also end a
 * suspended run and the children suspended with it.
 */
export const signalTree = method({
  payload: () => Target().extend({ signal: z.int().optional() }),
  async handle(payload, services, caller): Promise<ProcRef & { affected: number; was_suspended?: true }> {
    const signal = parseSignal(payload.signal ?? SIGPAUSE);
    const found = await findOwnRun(services, payload, caller.unit(), "signalled");
    const affected = found.live
      ? services.kernel.signals.signalTree(found.pid, signal)
      : await endSuspended(services, found, signal, true);
    // Neither a pause nor the end of a suspended run is logged by a process.
    services.procFeed?.wake();
    const wasSuspended = !found.live && affected > 0;
    return { ...refOf(found.info), affected, ...(wasSuspended && { was_suspended: true as const }) };
  },
});
