/** The open step of a run: the entries of the journal that are its own, and how far it came. */

import type { Message, StopReason, ToolCall, Usage } from "../plugin/index.ts";
import type { AskVerdict } from "./ask-schema.ts";
import type { RunEvent, RunEventOf } from "./events.ts";
import type { JournalEntry, ToolCallRecord, Wake } from "./step-schema.ts";

/**
 * Returns the journal entries of the open step: its compactions and model switches, its last answer, and all entries
 * after that. Ignored are entries of recorded steps, and remains of later steps or replaced answers after a power loss.
 * No unsafe call was made for such an answer: the answer and all earlier steps are durable before it.
 */
export function openStep(entries: readonly JournalEntry[], recorded: number): JournalEntry[] {
  const open = entries.filter(({ step }) => step === recorded + 1);
  const answer = open.findLastIndex(({ t }) => t === "answer");
  return open.filter(({ t }, at) => at >= answer || t === "compact" || t === "switch");
}

/** Returns true when ignored entries could later be mistaken for the next step. */
export function isMixed(entries: readonly JournalEntry[], recorded: number): boolean {
  const later = entries.filter(({ step }) => step > recorded);
  return later.length > openStep(entries, recorded).length;
}

/** What the calls of a step came to before it was cut off. */
interface CallsSoFar {
  /** By call: results of ended calls, and of calls with an unknown end. All other calls are made now. */
  settled: ReadonlyMap<string, ToolCallRecord>;
  /** By call: what it was waiting for. The call is repeated and waits again. */
  waiting: ReadonlyMap<string, Wake>;
  /** By call: what a person has decided about it. */
  verdicts: ReadonlyMap<string, AskVerdict[]>;
}

/** A step without a record: its answer is journaled, and its calls are as far as the journal says. */
export interface OpenStep extends CallsSoFar {
  step: number;
  ts: string;
  message: Message;
  reasoning: string | undefined;
  usage: Usage;
  stopReason: StopReason;
  stopWord: string | undefined;
  /** Numbers of the inbox entries that the messages before its answer hold. */
  inbox: number[] | undefined;
  /** The user interrupted its answer. */
  interrupted: boolean;
}

/** Returns the open step that these events add up to; null without an answer. */
export function stepCutOff(events: readonly RunEvent[]): OpenStep | null {
  const found = events.find((event) => event.t === "answer");
  const answer = found && withCalls(found, events);
  if (!answer) return null;
  const { step, ts, message, reasoning, usage } = answer;
  const inbox = events.find((event) => event.t === "read")?.inbox ?? [];
  const { settled, ...calls } = callsSoFar(events);
  const called = new Set((message.tool_calls ?? []).map(({ id }) => id));
  return {
    step,
    ts,
    message,
    reasoning,
    usage,
    ...calls,
    stopReason: answer.stop_reason ?? "end_turn",
    stopWord: answer.stop_word,
    inbox: inbox.length > 0 ? [...inbox] : undefined,
    interrupted: answer.interrupted === true,
    settled: new Map([...settled].filter(([id]) => called.has(id))),
  };
}

/** Adds the journal's calls to the answer of a program that called tools itself; undefined if it called none. */
function withCalls(
  answer: RunEventOf<"answer">,
  events: readonly RunEvent[],
): RunEventOf<"answer"> | undefined {
  if (!answer.served) return answer;
  const calls = new Map<string, ToolCall>();
  for (const event of events)
    if (event.t === "call_start") calls.set(event.id, { id: event.id, name: event.name, input: event.input });
  if (calls.size === 0) return undefined;
  return { ...answer, message: { ...answer.message, tool_calls: [...calls.values()] } };
}

/** Returns what the calls of the open step came to, by the events that follow its answer. */
export function callsSoFar(events: readonly RunEvent[]): CallsSoFar {
  const settled = new Map<string, ToolCallRecord>();
  const waiting = new Map<string, Wake>();
  const verdicts = new Map<string, AskVerdict[]>();
  for (const event of events) {
    if (event.t === "waiting") waiting.set(event.id, event.on);
    if (event.t === "verdict") {
      // From here on the call may have acted, unless it was refused: then it is refused again.
      waiting.delete(event.id);
      if (event.verdict.verdict === "no") settled.delete(event.id);
      verdicts.set(event.id, [...(verdicts.get(event.id) ?? []), event.verdict]);
    }
    if (event.t === "call_start" && !event.safe) settled.set(event.id, unknownCall(event));
    // A safe call without an end is repeated.
    if (event.t === "call_end") settled.set(event.call.id, event.call);
  }
  // A waiting call may have been started a second time after a resume.
  for (const id of waiting.keys()) if (settled.get(id)?.state === "unknown") settled.delete(id);
  return { settled, waiting, verdicts };
}

/** The record of a call that started and has no recorded end. */
function unknownCall({ id, name, path, input, ts }: RunEventOf<"call_start">): ToolCallRecord {
  return {
    id,
    name,
    path,
    input,
    result: null,
    error:
      "rnix was ended from outside while this call was under way: it may or may not have happened, whole or in part. Look at what is there before you do it again.",
    error_code: "CLOSED",
    started_at: ts,
    duration_ms: 0,
    state: "unknown",
  };
}
