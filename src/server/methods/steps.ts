import { SyscallError } from "../../plugin/index.ts";
import type { Answers, Payload, StepDetail, StepSummary } from "../../protocol/methods.ts";
import type { StepRecord } from "../../store/runs/schema.ts";
import { Damage } from "../records/damage.ts";
import { allSteps, type Run } from "../records/recorded-run.ts";
import type { Services } from "../services.ts";
import { findRun, recordsOf } from "./find-run.ts";

const PAGE = 10_000;

/** The finished steps of a process, in short. `after` is the number of a step. */
export async function listSteps(
  payload: Payload<"list_steps">,
  system: Services,
): Promise<Answers["list_steps"]> {
  const run = await recordsOf(system, await findRun(system, payload));
  const { info, records } = run;
  const { after = 0, limit = PAGE } = payload;
  const steps: StepSummary[] = [];
  const damage = new Damage(run);
  for await (const record of allSteps(records, info.uuid, damage)) {
    if (record.step > after && steps.length < limit) steps.push(summary(record));
  }
  return { steps, total: info.steps, parse_errors: damage.count, damaged: damage.list() };
}

/** One step, whole. */
export async function getStepDetail(
  payload: Payload<"get_step_detail">,
  system: Services,
): Promise<Answers["get_step_detail"]> {
  const { info, records } = await recordsOf(system, await findRun(system, payload));
  for await (const step of allSteps(records, info.uuid)) {
    if (step.step !== payload.step) continue;
    const { pid, uuid } = info;
    return { ...step, pid, uuid, ...firstCall(step), kept_results: await keptResults(records, uuid, step) };
  }
  throw new SyscallError(
    "NOT_FOUND",
    `PID ${info.pid} has no recorded step ${payload.step}. \`rnix steps ${info.pid}\` lists those it has.`,
  );
}

function summary(record: StepRecord): StepSummary {
  const { step, ts, action, tool_calls } = record;
  return {
    step,
    ts,
    action,
    summary: record.summary,
    tool_path: tool_calls[0]?.path ?? null,
    has_error: tool_calls.some((call) => call.error !== null),
    duration_ms: tool_calls.reduce((sum, call) => sum + call.duration_ms, 0),
    token_count: record.tokens_used,
  };
}

async function keptResults(
  records: Run["records"],
  uuid: string,
  { tool_calls }: StepRecord,
): Promise<StepDetail["kept_results"]> {
  const found: StepDetail["kept_results"] = [];
  for (const { id, kept } of tool_calls) {
    if (!kept) continue;
    const { path, bytes, problem } = await records.kept(uuid, kept);
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
