/** The method suspend. */

import { z } from "zod";
import { isWoken } from "../../kernel/process/process-info.ts";
import type { ProcInfo, Wake } from "../../kernel/types.ts";
import { SyscallError } from "../../plugin/index.ts";
import { refOf, Target } from "../../protocol/fields.ts";
import type { ProcRef } from "../../protocol/methods.ts";
import { method } from "./method.ts";
import { findOwnAgent } from "./shared/find-own-run.ts";

/** The wakes that a request may set. */
const WakeRequest = () =>
  z.discriminatedUnion("on", [
    z.object({ on: z.literal("at"), at_ms: z.int().positive() }),
    z.object({ on: z.literal("message") }),
    z.object({ on: z.literal("never") }),
  ]);

/**
 * Suspends a process; answers when its record is written. A run that is suspended already gets the new wake. Without
 * `wake` only a user's resume wakes it.
 */
export const suspend = method({
  payload: () =>
    Target().extend({
      wake: WakeRequest().optional(),
      /** Its programs are killed without the grace after TERM. */
      now: z.boolean().optional(),
    }),
  async handle(payload, services, caller): Promise<ProcRef & { state: ProcInfo["state"]; step: number }> {
    const found = await findOwnAgent(services, payload, caller.unit(), "suspended");
    const ref = refOf(found.info);
    const { wake } = payload;
    if (found.live) {
      // Another request may have ended it just before.
      const { reason } = await services.kernel.lifecycle.suspend(found.pid, { wake, now: payload.now });
      if (reason !== "suspended") throw hasEnded(ref.pid, reason);
    } else if (found.info.ended_at_ms !== null && found.info.state === "suspended") {
      const { dataDir } = found.run.records;
      const next: Wake = wake ?? { on: found.info.chat ? "message" : "never" };
      await services.kernel.lifecycle.setWake(ref.uuid, dataDir, "on request", next);
      services.waker?.began(ref.uuid);
      if (isWoken(next, found.info.chat)) services.waker?.suspended({ uuid: ref.uuid, wake: next });
    } else if (found.info.state !== "suspended") {
      throw hasEnded(ref.pid, found.info.exit_reason);
    }
    const run = await (await services.history()).byUuid(ref.uuid);
    const { state, steps } = run?.info ?? found.info;
    return { ...ref, state, step: steps };
  },
});

function hasEnded(pid: number, reason: string | null): SyscallError {
  return new SyscallError("INVALID", `PID ${pid} has ended (${reason}): there is nothing to suspend.`);
}
