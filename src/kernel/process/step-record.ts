/** Builds the record of a finished step. */

import type { LLMAnswer, Message } from "../../plugin/index.ts";
import type { Action, SoFar, StepRecord, ToolCallRecord } from "../../store/runs/schema.ts";
import type { Process } from "./process.ts";

/** Characters of a step's summary. */
const SUMMARY = 160;

export interface FinishedStep {
  /** When the step began. */
  ts: string;
  assistant: Message;
  answer: LLMAnswer;
  calls: ToolCallRecord[];
  action: Action;
  /** Numbers of the inbox entries in its messages. */
  inbox: number[] | undefined;
  /** The messages of the step show a failed check. */
  afterCheck: boolean;
  /** The user interrupted its answer or its calls. */
  interrupted: boolean;
  /** Tools in its request; undefined: not known, as the request was made before a resume. */
  offered: number | undefined;
}

/**
 * The record of a finished step. It takes the unrecorded data of the process; messages that a thread appended after the
 * answer belong to the next step.
 */
export function stepRecord(
  proc: Process,
  { ts, assistant, answer, calls, action, inbox, afterCheck, interrupted, offered }: FinishedStep,
): StepRecord {
  const { unrecorded } = proc.conversation;
  const ended = proc.family.newResults.splice(0);
  const switches = proc.model.switches.filter(({ step }) => step === proc.run.step);
  const compactions = proc.conversation.compactions.splice(0);
  return {
    v: 1,
    step: proc.run.step,
    ts,
    compactions: compactions.length > 0 ? compactions : undefined,
    messages: unrecorded.splice(0, unrecorded.indexOf(assistant) + 1),
    raw_response: answer.content,
    reasoning: answer.reasoning,
    stop_reason: cutShort(answer.stop_reason),
    stop_word: answer.stop_word,
    action,
    summary: summarize(answer, calls),
    tool_calls: calls,
    inbox,
    usage: answer.usage,
    tokens_used: answer.tokens_used,
    after_check: afterCheck || undefined,
    tools_offered: offered,
    interrupted: interrupted || undefined,
    children: ended.length > 0 ? ended : undefined,
    switches: switches.length > 0 ? switches : undefined,
    so_far: usageSoFar(proc),
  };
}

/** The usage of the process so far. */
export function usageSoFar({ tokensUsed, costUsd, elapsedMs, run: { corrections }, spec }: Process): SoFar {
  return {
    tokens_used: tokensUsed,
    cost_usd: costUsd,
    steps_used: spec.budget.steps,
    elapsed_ms: Math.round(elapsedMs),
    ...(corrections > 0 && { corrections }),
  };
}

/**
 * The kind of a step: the kernel's own tools are the actions of the seeds (5.1). `ends`: an answer without calls, or
 * Complete, ends the run.
 */
export function actionOf(
  calls: readonly ToolCallRecord[],
  { planned, ends }: { planned: boolean; ends: boolean },
): Action {
  if (calls.length === 0) return ends ? "complete" : "text";
  const done = new Set(calls.filter((call) => call.state === "done").map((call) => call.name));
  if (done.has("Complete") && ends) return "complete";
  if (calls.some(({ name, state }) => name === "Agent" && (state === "done" || state === "failed")))
    return "spawn";
  if (done.has("Skill")) return "specialize";
  if (!done.has("Plan")) return "tool_call";
  return planned ? "replan" : "plan";
}

function cutShort(reason: LLMAnswer["stop_reason"]): StepRecord["stop_reason"] {
  return reason === "end_turn" || reason === "tool_calls" || reason === "unknown" ? undefined : reason;
}

function summarize(answer: LLMAnswer, calls: readonly ToolCallRecord[]): string {
  const text =
    calls.length === 0
      ? answer.content
      : calls.map((call) => `${call.name}${call.state === "done" ? "" : ` (${call.state})`}`).join(", ");
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > SUMMARY ? `${line.slice(0, SUMMARY - 1)}…` : line;
}
