/** The method get_step_detail. */

import { z } from "zod";
import { SyscallError } from "../../plugin/index.ts";
import { Target } from "../../protocol/fields.ts";
import type { StepDetail } from "../../protocol/methods.ts";
import { shownAction } from "../../run/step-index.ts";
import type { StepRecord } from "../../store/runs/schema.ts";
import type { Run } from "../records/recorded-run.ts";
import { method } from "./method.ts";
import { findRun, recordsOf } from "./shared/find-run.ts";

export const getStepDetail = method({
  payload: () => Target().extend({ step: z.int().positive() }),
  async handle(payload, services): Promise<StepDetail> {
    const { info, records } = await recordsOf(services, await findRun(services, payload));
    const { pid, uuid } = info;
    let step: StepRecord | undefined;
    let next: StepRecord | undefined;
    for await (const record of records.everyStep(uuid)) {
      if (step) next = record;
      else if (record.step === payload.step) step = record;
      if (next) break;
    }
    if (step) {
      const kept_results = await keptResults(records, uuid, step);
      // Without `p`, `ns` and `entries`, which mean something in the file only.
      const { p: _, ns: __, entries: ___, ...shown } = step;
      return { ...shown, action: shownAction(step, next), pid, uuid, ...firstCall(step), kept_results };
    }
    const message = `PID ${info.pid} has no recorded step ${payload.step}. \`rnix steps ${info.pid}\` lists its steps.`;
    throw new SyscallError("NOT_FOUND", message);
  },
});

async function keptResults(
  records: Run["records"],
  uuid: string,
  { tool_calls }: StepRecord,
): Promise<StepDetail["kept_results"]> {
  const found: StepDetail["kept_results"] = [];
  for (const { id, kept } of tool_calls) {
    if (!kept) continue;
    const { path, bytes, problem } = await records.checkBlob(uuid, kept);
    found.push({ id, path, bytes, problem });
  }
  return found;
}

function firstCall({
  tool_calls: [call],
}: StepRecord): Pick<StepDetail, "tool_path" | "tool_input" | "tool_result" | "tool_error"> {
  return {
    tool_path: call?.path ?? null,
    tool_input: call?.input ?? null,
    tool_result: call?.result ?? null,
    tool_error: call?.error ?? null,
  };
}
