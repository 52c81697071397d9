/** Reads what the recorded steps of a run say: its calls, plan, skills and last answer. */

import type { StepRecord, ToolCallRecord } from "../../store/runs/schema.ts";
import type { SavedHistory } from "../conversation/rebuild-history.ts";
import { planText } from "../devices/plan.ts";
import type { LastAnswer } from "../process/run-progress.ts";
import type { AgentInfo, SkillInfo } from "../types.ts";

/** Whether the run made this step itself. The first steps of a fork were made by another run. */
export function isOwn({ origin_uuid }: StepRecord): boolean {
  return origin_uuid === undefined;
}

/** Calls that are known to have ended, oldest first. */
export function callsOf(steps: readonly StepRecord[], { openStep }: SavedHistory): ToolCallRecord[] {
  return [...steps.flatMap((step) => step.tool_calls), ...(openStep?.settled.values() ?? [])];
}

function done(calls: readonly ToolCallRecord[], name: string): ToolCallRecord[] {
  return calls.filter((call) => call.name === name && call.state === "done");
}

export function lastPlan(calls: readonly ToolCallRecord[]): string | null {
  const last = done(calls, "Plan").at(-1);
  return last ? planText(last.input) : null;
}

export function completionOf(calls: readonly ToolCallRecord[]): string | null {
  const last = done(calls, "Complete").at(-1);
  return last ? String(last.input.result) : null;
}

/** The loaded skills. The model has seen a skill that is gone now, so it needs no loading. */
export function skillsCalled(calls: readonly ToolCallRecord[], agent: AgentInfo | null): SkillInfo[] {
  const loads = done(calls, "Skill").filter(({ input }) => input.file === undefined);
  const names = new Set(loads.map(({ input }) => String(input.skill)));
  return agent?.deferredSkills.filter(({ name }) => names.has(name)) ?? [];
}

/** The user interrupted the last step. */
export function wasInterrupted(steps: readonly StepRecord[]): boolean {
  return steps.at(-1)?.interrupted === true;
}

/** The final answer of the model, if this step was to be the last. */
export function answerOf(last: StepRecord): LastAnswer | null {
  const { tool_calls, raw_response, stop_reason, stop_word } = last;
  if (last.interrupted) return null;
  const completion = completionOf(tool_calls);
  if (completion !== null) return { content: completion };
  if (tool_calls.length > 0 || stop_reason === "paused") return null;
  return { content: raw_response, stop_reason, stop_word };
}
