/** The method background_call. */

import { refOf, Target } from "../../protocol/fields.ts";
import type { ProcRef } from "../../protocol/methods.ts";
import { method } from "./method.ts";
import { findOwnAgent } from "./shared/find-own-run.ts";

/** Moves the running commands of a run's calls to the background: their calls return. Answers how many there are. */
export const backgroundCall = method({
  payload: Target,
  async handle(payload, services, caller): Promise<ProcRef & { moved: number }> {
    const found = await findOwnAgent(services, payload, caller.unit(), "changed");
    const ref = refOf(found.info);
    return { ...ref, moved: found.live ? services.kernel.units.moveCalls(ref.uuid) : 0 };
  },
});
