/** The state of a run: what its events add up to. */

import type { Usage } from "../plugin/index.ts";
import type { RunEvent } from "./events.ts";
import type { ChildResult, SoFar, StepRecord, ToolCallRecord } from "./step-schema.ts";
import { addUsage, noUsage } from "./usage.ts";

/** Of a fork, the steps that it began with count as steps only: their usage is that of the run that made them. */
export interface RunState {
  /** The last step with a record; 0 when there is none. */
  recorded: number;
  /** The last step that has begun. */
  steps: number;
  /** The first step without a readable record before a later one; null: none. */
  gap: number | null;
  /** The record of the last step that has one. */
  last: StepRecord | null;
  /** The events after it: those of the open step, with compactions and model switches before that step. */
  open: RunEvent[];
  recorded_calls: number;
  /** The input of the last call of Plan that is done. */
  plan: ToolCallRecord["input"] | null;
  /** The names of the skills that were loaded. */
  skills: Set<string>;
  /** Ends of children, as the steps recorded them. */
  children: ChildResult[];
  /** Numbers of the inbox entries that recorded steps have delivered to the model. */
  acknowledged: number[];
  /** The same of the open step. */
  delivered: number[];
  /** Of the run alone. */
  usage: Usage;
  /** Usage with its children: the last sum on record, and what drivers have asked the model since. */
  so_far: SoFar | null;
  /** Unix ms of that sum; 0 without one. */
  counted_at_ms: number;
  /** Unix ms of the last event; 0 when there is none. */
  seen_at_ms: number;
}

export function initialState(): RunState {
  return {
    recorded: 0,
    steps: 0,
    gap: null,
    last: null,
    open: [],
    recorded_calls: 0,
    plan: null,
    skills: new Set(),
    children: [],
    acknowledged: [],
    delivered: [],
    usage: noUsage(),
    so_far: null,
    counted_at_ms: 0,
    seen_at_ms: 0,
  };
}

/** Adds an event to the state, and returns it. The state is changed in place: a long run has 100,000 events. */
export function reduce(state: RunState, event: RunEvent): RunState {
  // Steps count from 1, and the events of a step come after the record of the one before.
  if (event.step !== state.recorded + 1) state.gap ??= state.recorded + 1;
  // The step that a compaction comes before may not have begun.
  const begun = event.t === "compact" || event.t === "switch" ? event.step - 1 : event.step;
  state.steps = Math.max(state.steps, begun);
  if (event.origin_uuid === undefined) count(state, event);
  if (event.t === "step") finish(state, event.record);
  else state.open.push(event);
  return state;
}

/** Adds what counts for the run that made the step. */
function count(state: RunState, event: RunEvent): void {
  state.seen_at_ms = Math.max(state.seen_at_ms, Date.parse(event.ts));
  switch (event.t) {
    case "compact":
      addUsage(state.usage, event.compaction.usage);
      counted(state, event.so_far);
      break;
    case "read":
      state.delivered.push(...event.inbox);
      break;
    case "answer":
      addUsage(state.usage, event.usage);
      counted(state, event.so_far);
      break;
    case "call_end": {
      const { inbox, model_use } = event.call;
      if (inbox) state.delivered.push(...inbox);
      if (model_use) addUsage(state.usage, model_use.usage);
      if (model_use && state.so_far) state.so_far = withUse(state.so_far, model_use.usage);
      break;
    }
    case "step":
      state.recorded_calls += event.record.tool_calls.length;
      counted(state, event.record.so_far);
  }
}

function finish(state: RunState, record: StepRecord): void {
  state.recorded = Math.max(state.recorded, record.step);
  state.last = record;
  for (const call of record.tool_calls) addCall(state, call);
  if (record.children) state.children.push(...record.children);
  state.acknowledged.push(...state.delivered);
  // Emptied, not replaced: the next step fills them again.
  state.delivered.length = 0;
  state.open.length = 0;
}

/** Tool calls that were started: one that was repeated after a resume counts once. */
export function startedCalls({ recorded_calls, open }: RunState): number {
  const started = open.flatMap((event) => (event.t === "call_start" ? event.id : []));
  return recorded_calls + new Set(started).size;
}

/** Adds what an ended call has set: the plan, or a skill. Calls of the open step may still change it. */
export function addCall(state: Pick<RunState, "plan" | "skills">, call: ToolCallRecord): void {
  if (call.state !== "done") return;
  if (call.name === "Plan") state.plan = call.input;
  if (call.name === "Skill" && call.input.file === undefined) state.skills.add(String(call.input.skill));
}

function counted(state: RunState, so_far: SoFar | undefined): void {
  if (so_far) [state.so_far, state.counted_at_ms] = [so_far, state.seen_at_ms];
}

function withUse(sum: SoFar, { input_tokens, output_tokens, cost_usd = 0 }: Usage): SoFar {
  return {
    ...sum,
    tokens_used: sum.tokens_used + input_tokens + output_tokens,
    cost_usd: sum.cost_usd === null ? null : sum.cost_usd + cost_usd,
  };
}
