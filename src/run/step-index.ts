/** The index of a run: a line for each of its steps, without their bodies. */

import { didTitle } from "../lib/call-title.ts";
import type { RunEvent, RunEventOf } from "./events.ts";
import type { Action, StepRecord } from "./step-schema.ts";

/** A step in short. */
export interface StepLine {
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
}

/** The step that has an answer and no record yet: its calls so far. */
export interface OpenStepLine extends Omit<StepLine, "action" | "summary"> {
  open: true;
}

/**
 * Returns the finished steps of a run in short, then the open one. `cwd`: paths below it are shown relative to it. The
 * action is as the next step shows it: an answer that a check rejected is `text`.
 */
export async function* stepIndex(
  events: AsyncIterable<RunEvent>,
  cwd: string,
): AsyncGenerator<StepLine | OpenStepLine> {
  let last: StepRecord | undefined;
  let open: RunEvent[] = [];
  for await (const event of events) {
    open.push(event);
    if (event.t !== "step") continue;
    if (last) yield lineOf(last, event.record, cwd);
    last = event.record;
    open = [];
  }
  if (last) yield lineOf(last, undefined, cwd);
  const answer = open.find((event) => event.t === "answer");
  if (answer) yield openLine(answer, open, cwd);
}

/** The action of a step, as the step after it shows it. */
export function shownAction({ action, tool_calls }: StepRecord, next: StepRecord | undefined): Action {
  if (action !== "complete" || !next?.after_check) return action;
  return tool_calls.length === 0 ? "text" : "tool_call";
}

function lineOf(record: StepRecord, next: StepRecord | undefined, cwd: string): StepLine {
  const { step, ts, summary, tool_calls } = record;
  return {
    ...{ step, ts, action: shownAction(record, next), summary },
    did: tool_calls.length === 0 ? summary : didTitle(tool_calls, cwd),
    tool_path: tool_calls[0]?.path ?? null,
    has_error: tool_calls.some((call) => call.error !== null),
    duration_ms: Math.round(tool_calls.reduce((sum, call) => sum + call.duration_ms, 0)),
    token_count: record.tokens_used,
  };
}

function openLine(answer: RunEventOf<"answer">, open: readonly RunEvent[], cwd: string): OpenStepLine {
  const ended = new Map(
    open.flatMap((event) => (event.t === "call_end" ? [[event.call.id, event.call]] : [])),
  );
  const started = new Map(open.flatMap((event) => (event.t === "call_start" ? [[event.id, event]] : [])));
  const calls = [...started.values()].map((call) => ({
    ...call,
    state: ended.get(call.id)?.state ?? "running",
  }));
  const done = [...ended.values()];
  return {
    ...{ step: answer.step, ts: answer.ts, open: true },
    did: calls.length === 0 ? answer.message.content.replace(/\s+/g, " ").trim() : didTitle(calls, cwd),
    tool_path: calls[0]?.path ?? null,
    has_error: done.some((call) => call.error !== null),
    duration_ms: Math.round(done.reduce((sum, call) => sum + call.duration_ms, 0)),
    token_count: answer.usage.input_tokens + answer.usage.output_tokens,
  };
}
