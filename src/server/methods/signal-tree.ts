/** The method signal_tree. */

import { z } from "zod";
import { SIGPAUSE } from "../../lib/signals.ts";
import { Target } from "../../protocol/fields.ts";
import type { ProcRef } from "../../protocol/methods.ts";
import { method } from "./method.ts";
import { endSuspended } from "./shared/end-suspended.ts";
import { findOwnRun } from "./shared/find-own-run.ts";
import { refOf } from "./shared/find-run.ts";
import { parseSignal } from "./shared/parse-signal.ts";

/**
 * Signals a process and all its descendants, by default with SIGPAUSE (seeds 5.4). TERM, INT and KILL also end a
 * suspended run and the children suspended with it.
 */
export const signalTree = method({
  payload: () => Target().extend({ signal: z.int().optional() }),
  async handle(payload, services, caller): Promise<ProcRef & { affected: number; was_suspended?: true }> {
    const signal = parseSignal(payload.signal ?? SIGPAUSE);
    const found = await findOwnRun(services, payload, caller.unit(), "signalled");
    if (found.live)
      return { ...refOf(found.info), affected: services.kernel.signals.signalTree(found.pid, signal) };
    const affected = await endSuspended(services, found, signal, true);
    return { ...refOf(found.info), affected, ...(affected > 0 && { was_suspended: true as const }) };
  },
});
