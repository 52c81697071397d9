/** The method wait. */

import { z } from "zod";
import type { ProcInfo } from "../../kernel/types.ts";
import { SyscallError } from "../../plugin/index.ts";
import { Target } from "../../protocol/fields.ts";
import type { Receipt } from "../../protocol/methods.ts";
import type { Services } from "../services.ts";
import { method } from "./method.ts";
import { findOtherRun } from "./shared/find-own-run.ts";
import { receiptOf } from "./shared/receipt.ts";
import { until } from "./shared/stream-events.ts";

/**
 * Waits for the end of a run and returns its receipt; returns immediately for a suspended run. Fails with TIMEOUT after
 * the given time.
 */
export const wait = method({
  payload: () => Target().extend({ timeout_ms: z.int().positive().optional() }),
  async handle(payload, services, caller): Promise<Receipt> {
    const found = await findOtherRun(services, payload, caller, "waited for");
    if (!found.live) return receiptOf(found.info);
    const giveUp = new AbortController();
    const timer =
      payload.timeout_ms === undefined
        ? undefined
        : services.clock.timer(payload.timeout_ms, () => giveUp.abort());
    try {
      const info = await ending(services, found.pid, AbortSignal.any([giveUp.signal, caller.gone]));
      if (info) return receiptOf(info);
    } finally {
      timer?.cancel();
    }
    const message = `PID ${found.pid} has not ended within ${payload.timeout_ms} ms. It is still running. Wait again: rnix wait ${found.pid}.`;
    throw new SyscallError("TIMEOUT", message);
  },
});

async function ending(services: Services, pid: number, giveUp: AbortSignal): Promise<ProcInfo | undefined> {
  for await (const event of until(services.kernel.attach(pid, { watched: "log" }), giveUp)) {
    if (event.event === "complete") return event.info;
  }
  return undefined;
}
