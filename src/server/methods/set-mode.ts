/** The method set_mode: what a live run asks without a rule. */

import { z } from "zod";
import { ASK_MODES, type AskMode } from "../../lib/ask-modes.ts";
import { refOf, Target } from "../../protocol/fields.ts";
import type { ProcRef } from "../../protocol/methods.ts";
import { method } from "./method.ts";
import { findLiveRun, requireLive } from "./shared/find-run.ts";
import { refuseInside, requireTyped } from "./shared/refuse-inside.ts";

const SetModeRequest = () => Target().extend({ mode: z.enum(ASK_MODES) });

interface ModeAnswer extends ProcRef {
  /** The mode that takes effect: a child's mode is never looser than its parent's. */
  mode: AskMode;
}

/** Changes the mode of a live run and of its children. The record has it. Refused inside a run. */
export const setMode = method({
  payload: SetModeRequest,
  async handle(payload, services, caller): Promise<ModeAnswer> {
    refuseInside(
      caller,
      (unit) =>
        `The mode of a run can't be changed from inside one (${unit}). Change it from your own terminal.`,
    );
    if (payload.mode !== "plan") requireTyped(caller);
    const found = await findLiveRun(services, payload, "given another mode");
    const pid = requireLive(found, "the mode");
    return { ...refOf(found.info), mode: await services.kernel.capabilities.setMode(pid, payload.mode) };
  },
});
