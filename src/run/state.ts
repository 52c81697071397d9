/** The state of a run: what its events add up to. */

import type { Usage } from "../plugin/index.ts";
import type { RunEvent } from "./events.ts";
import type { SoFar } from "./step-schema.ts";
import { addUsage, noUsage } from "./usage.ts";

/** Of a fork, the steps that it began with count as steps only: their usage is that of the run that made them. */
export interface RunState {
  /** The last step with a record; 0 when there is none. */
  recorded: number;
  /** The last step that has begun. */
  steps: number;
  /** Tool calls that were started. */
  tool_calls: number;
  /** Of the run alone. */
  usage: Usage;
  /** Usage with its children: the last sum on record, and what drivers have asked the model since. */
  so_far: SoFar | null;
  /** Unix ms of that sum; 0 without one. */
  counted_at_ms: number;
  /** Unix ms of the last event; 0 when there is none. */
  seen_at_ms: number;
  /** Calls of the open step that were started. */
  open_calls: readonly string[];
}

export const INITIAL_STATE: RunState = {
  recorded: 0,
  steps: 0,
  tool_calls: 0,
  usage: noUsage(),
  so_far: null,
  counted_at_ms: 0,
  seen_at_ms: 0,
  open_calls: [],
};

/** Returns the state after an event. */
export function reduce(before: RunState, event: RunEvent): RunState {
  // The step that a compaction comes before may not have begun.
  const begun = event.t === "compact" || event.t === "switch" ? event.step - 1 : event.step;
  const state = { ...before, steps: Math.max(before.steps, begun) };
  if (event.t === "step") {
    state.recorded = Math.max(state.recorded, event.step);
    state.open_calls = [];
  }
  if (event.origin_uuid !== undefined) return state;
  state.seen_at_ms = Math.max(state.seen_at_ms, Date.parse(event.ts));
  switch (event.t) {
    case "compact":
      return counted(used(state, event.compaction.usage), event.so_far);
    case "answer":
      return counted(used(state, event.usage), event.so_far);
    case "step":
      return counted(state, event.record.so_far);
    case "call_start":
      if (state.open_calls.includes(event.id)) return state;
      return { ...state, tool_calls: state.tool_calls + 1, open_calls: [...state.open_calls, event.id] };
    case "call_end": {
      const asked = event.call.model_use?.usage;
      return asked ? { ...used(state, asked), so_far: state.so_far && withUse(state.so_far, asked) } : state;
    }
    default:
      return state;
  }
}

function used(state: RunState, more: Usage): RunState {
  const usage = { ...state.usage };
  addUsage(usage, more);
  return { ...state, usage };
}

function counted(state: RunState, so_far: SoFar | undefined): RunState {
  return so_far ? { ...state, so_far, counted_at_ms: state.seen_at_ms } : state;
}

function withUse(sum: SoFar, { input_tokens, output_tokens, cost_usd = 0 }: Usage): SoFar {
  return {
    ...sum,
    tokens_used: sum.tokens_used + input_tokens + output_tokens,
    cost_usd: sum.cost_usd === null ? null : sum.cost_usd + cost_usd,
  };
}
