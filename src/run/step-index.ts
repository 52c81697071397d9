/** The index of a run: a line for each of its steps, without their bodies. */

import { didTitle } from "../lib/call-title.ts";
import type { Action, StepRecord } from "./step-schema.ts";

export interface StepLine {
  /** The number of its last event: what follows it is streamed from there. Absent: an older Rnix recorded it. */
  n?: number;
  step: number;
  /** When it began. */
  ts: string;
  action: Action;
  summary: string;
  /** What the step did, for people: each call with what it was about, or the answer's text. One line. */
  did: string;
  tool_path: string | null;
  has_error: boolean;
  /** Of its calls. */
  duration_ms: number;
  token_count: number;
  /** Tokens of its request: how large the context was. */
  context: number;
  /** Of the run up to here, with its children; null: no price is known. */
  cost_usd: number | null;
}

/**
 * The finished steps of a run in short. The action is as the next step shows it: an answer that a check rejected is
 * `text`.
 */
export class StepIndex {
  readonly lines: StepLine[] = [];
  #last: StepRecord | undefined;

  /** Adds the next step. `cwd`: paths below it are shown relative to it. */
  add(record: StepRecord, cwd: string): void {
    const line = this.lines.at(-1);
    if (line && this.#last) line.action = shownAction(this.#last, record);
    // The next step changes no other action.
    this.#last = record.action === "complete" ? record : undefined;
    this.lines.push(lineOf(record, cwd));
  }
}

/** The action of a step, as the step after it shows it. */
export function shownAction({ action, tool_calls }: StepRecord, next: StepRecord | undefined): Action {
  if (action !== "complete" || !next?.after_check) return action;
  return tool_calls.length === 0 ? "text" : "tool_call";
}

function lineOf(
  { n, step, ts, action, summary, tool_calls, tokens_used, usage, so_far }: StepRecord,
  cwd: string,
): StepLine {
  return {
    ...(n !== undefined && { n }),
    step,
    ts,
    action,
    summary,
    did: tool_calls.length === 0 ? summary : didTitle(tool_calls, cwd),
    tool_path: tool_calls[0]?.path ?? null,
    has_error: tool_calls.some((call) => call.error !== null),
    duration_ms: Math.round(tool_calls.reduce((sum, call) => sum + call.duration_ms, 0)),
    token_count: tokens_used,
    context: usage.input_tokens,
    cost_usd: so_far?.cost_usd ?? null,
  };
}
