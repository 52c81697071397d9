/** The method kill. */

import { z } from "zod";
import { SIGTERM } from "../../lib/signals.ts";
import { refOf, Target } from "../../protocol/fields.ts";
import type { ProcRef } from "../../protocol/methods.ts";
import { method } from "./method.ts";
import { endSuspended, parseSignal } from "./shared/end-suspended.ts";
import { findOwnRun } from "./shared/find-own-run.ts";

/**
 * Signals one process, by default with SIGTERM. A suspended run ends and does not resume by itself. An ended run is
 * unaffected (seeds 1.2, Kill).
 */
export const kill = method({
  payload: () => Target().extend({ signal: z.int().optional() }),
  async handle(payload, services, caller): Promise<ProcRef & { affected: number; was_suspended?: true }> {
    const signal = parseSignal(payload.signal ?? SIGTERM);
    const found = await findOwnRun(services, payload, caller.unit(), "signalled");
    if (found.live) services.kernel.processes.kill(found.pid, signal);
    const suspended = await endSuspended(services, found, signal, false);
    if (suspended > 0) return { ...refOf(found.info), affected: suspended, was_suspended: true };
    return { ...refOf(found.info), affected: found.info.ended_at_ms === null ? 1 : 0 };
  },
});
