/** The method set_model: another model for a chat. */

import { z } from "zod";
import { EFFORTS, type Effort, SyscallError } from "../../plugin/index.ts";
import { refOf, Target } from "../../protocol/fields.ts";
import type { ProcRef } from "../../protocol/methods.ts";
import { method } from "./method.ts";
import { findLiveRun, recordsOf, requireAgent } from "./shared/find-run.ts";
import { refuseInside } from "./shared/refuse-inside.ts";

const SetModelRequest = () =>
  Target().extend({
    /** Absent: the run's own. */
    provider: z.string().min(1).optional(),
    /** Absent: the default of a new provider. */
    model: z.string().min(1).optional(),
    effort: z.enum(EFFORTS).optional(),
    /** The caller's whole environment, in which keys are looked up. Absent: the daemon's. */
    env: z.record(z.string(), z.string()).optional(),
  });

interface ModelAnswer extends ProcRef {
  provider: string;
  model: string;
  effort: Effort | null;
  /** False: the run takes it before its next model call. */
  applied: boolean;
}

/**
 * Gives a live or suspended run another model or effort, by the rules of a spawn. The record has it like a switch to a
 * fallback, and the run keeps it after a resume. Refused inside a run.
 */
export const setModel = method({
  payload: SetModelRequest,
  async handle(payload, services, caller): Promise<ModelAnswer> {
    refuseInside(caller, insideRun);
    const { provider, model, effort, env } = payload;
    if (provider === undefined && model === undefined && effort === undefined) {
      const message = "Expected a provider, a model or an effort; got none of them.";
      throw new SyscallError("INVALID", message);
    }
    const found = await findLiveRun(services, payload, "given another model");
    requireAgent(found, "given another model");
    const { info } = found;
    const ref = refOf(info);
    if (!found.live && info.state !== "suspended") {
      const message = `Run ${info.uuid} has ended (${info.exit_reason}): only a live or suspended run can be given another model.`;
      throw new SyscallError("INVALID", message);
    }
    const current = found.live ? services.kernel.processes.inherited(found.pid).provider : undefined;
    const isOther = provider !== undefined || model !== undefined;
    const run = await recordsOf(services, found);
    const choice = isOther
      ? await services.planModel(run, { provider, model, env }, current ?? undefined)
      : undefined;
    const chosen = {
      ...ref,
      provider: choice?.name ?? info.provider,
      model: choice?.model ?? info.model,
      effort: effort ?? info.effort,
    };
    if (found.live) {
      const { applied } = await services.kernel.chats.setModel(found.pid, { provider: choice, effort });
      return { ...chosen, applied };
    }
    const { dataDir } = run.records;
    const changed = await services.kernel.lifecycle.setModel(info.uuid, dataDir, {
      provider: choice,
      effort,
    });
    if (changed) return { ...chosen, applied: true };
    throw new SyscallError("INVALID", `Run ${info.uuid} was resumed meanwhile. Choose its model again.`);
  },
});

function insideRun(unit: string): string {
  return `The model of a run can't be changed from inside one (${unit}). Change it from your own terminal.`;
}
