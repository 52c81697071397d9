/** Rebuilds a run's conversation from its records. */

import { type Message, SyscallError, type ToolCall } from "../../plugin/index.ts";
import type { AskVerdict } from "../../run/ask-schema.ts";
import type { RunEvent, RunEventOf } from "../../run/events.ts";
import type { Compaction, StepRecord, ToolCallRecord, Wake } from "../../store/runs/schema.ts";
import type { OpenStep } from "../process/run-progress.ts";
import { applyCompaction } from "./apply-compaction.ts";
import { toolMessage } from "./messages.ts";

/** A run's conversation from its records. Every call has a result, as providers require. */
export interface SavedHistory {
  /** The last step with a record; 0 when there is none. */
  step: number;
  /** All messages up to the point where the run resumes. */
  messages: Message[];
  /** The last messages, which are in no record yet. */
  unrecorded: Message[];
  /** The messages sent for the last recorded answer, and their tokens. */
  asked: { messages: Message[]; tokens: number } | null;
  /** Compactions after the last recorded step. */
  compactions: Compaction[];
  /** The last summary of replaced messages. */
  summary: Compaction["summary"];
  openStep: OpenStep | null;
  /** The model paused in the last recorded step: it is called again with no new message. */
  paused: boolean;
}

/**
 * Rebuilds the conversation of a run. `first` is the first message, for a run that was interrupted before anything
 * was recorded. Fails with INVALID if a step in the middle can't be read.
 */
export function rebuildHistory(events: Iterable<RunEvent>, first: Message | undefined): SavedHistory {
  let messages: Message[] = [];
  let compactions: Compaction[] = [];
  let summary: SavedHistory["summary"] = null;
  let open: RunEvent[] = [];
  let last: StepRecord | undefined;
  for (const event of events) {
    if (event.t === "compact") {
      messages = applyCompaction(messages, event.compaction);
      compactions.push(event.compaction);
      summary = event.compaction.summary ?? summary;
    } else if (event.t === "step") {
      if (event.step !== (last?.step ?? 0) + 1) throw unreadStep((last?.step ?? 0) + 1);
      last = event.record;
      messages.push(...last.messages, ...last.tool_calls.map(toolMessage));
      compactions = [];
      open = [];
    } else open.push(event);
  }
  const answer = open.find((event) => event.t === "answer");
  const opened = answer && withCalls(answer, open);
  const read = open.find((event) => event.t === "read");
  const unrecorded = read?.messages ?? (!last && first ? [first] : []);
  return {
    step: last?.step ?? 0,
    messages: [...messages, ...unrecorded],
    unrecorded,
    asked: compactions.length > 0 ? null : lastAsked(messages, last),
    compactions,
    summary,
    openStep: opened ? openStepOf(opened, open, read?.inbox) : null,
    paused: !opened && unrecorded.length === 0 && last?.stop_reason === "paused",
  };
}

function lastAsked(recorded: readonly Message[], last: StepRecord | undefined): SavedHistory["asked"] {
  if (!last) return null;
  const answered = 1 + last.tool_calls.length;
  return { messages: recorded.slice(0, -answered), tokens: last.usage.input_tokens };
}

/** Steps count from 1; a gap is a lost line. */
function unreadStep(step: number): SyscallError {
  return new SyscallError(
    "INVALID",
    `Step ${step} can't be read in steps.jsonl, so the run can't be resumed. \`rnix steps\` lists the readable steps, and \`rnix resume UUID --fork --from-step N\` starts a new run after an earlier step.`,
  );
}

type Answer = RunEventOf<"answer">;

/** Adds the journal's calls to the answer of a program that called tools itself; undefined if it called none. */
function withCalls(answer: Answer, open: readonly RunEvent[]): Answer | undefined {
  if (!answer.served) return answer;
  const calls = new Map<string, ToolCall>();
  for (const event of open)
    if (event.t === "call_start") calls.set(event.id, { id: event.id, name: event.name, input: event.input });
  if (calls.size === 0) return undefined;
  return { ...answer, message: { ...answer.message, tool_calls: [...calls.values()] } };
}

function openStepOf(answer: Answer, open: readonly RunEvent[], inbox: readonly number[] = []): OpenStep {
  const { step, ts, message, reasoning, usage } = answer;
  const settled = new Map<string, ToolCallRecord>();
  const waiting = new Map<string, Wake>();
  const verdicts = new Map<string, AskVerdict[]>();
  for (const entry of open) {
    if (entry.t === "waiting") waiting.set(entry.id, entry.on);
    if (entry.t === "verdict") {
      // From here on the call may have acted, unless it was refused: then it is refused again.
      waiting.delete(entry.id);
      if (entry.verdict.verdict === "no") settled.delete(entry.id);
      verdicts.set(entry.id, [...(verdicts.get(entry.id) ?? []), entry.verdict]);
    }
    if (entry.t === "call_start" && !entry.safe) settled.set(entry.id, unknownCall(entry));
    // A safe call without an end is repeated.
    if (entry.t === "call_end") settled.set(entry.call.id, entry.call);
  }
  // A waiting call may have been started a second time after a resume.
  for (const id of waiting.keys()) if (settled.get(id)?.state === "unknown") settled.delete(id);
  return {
    step,
    ts,
    message,
    reasoning,
    usage,
    stopReason: answer.stop_reason ?? "end_turn",
    stopWord: answer.stop_word,
    inbox: inbox.length > 0 ? [...inbox] : undefined,
    interrupted: answer.interrupted === true,
    settled: onlyCalled(message.tool_calls ?? [], settled),
    waiting,
    verdicts,
  };
}

function onlyCalled(
  calls: readonly ToolCall[],
  settled: ReadonlyMap<string, ToolCallRecord>,
): ReadonlyMap<string, ToolCallRecord> {
  const ids = new Set(calls.map(({ id }) => id));
  return new Map([...settled].filter(([id]) => ids.has(id)));
}

/** The record of a call that started and has no recorded end. */
export function unknownCall({ id, name, path, input, ts }: RunEventOf<"call_start">): ToolCallRecord {
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
