import { type Message, SyscallError, type ToolCall } from "../../plugin/index.ts";
import type { Compaction, JournalEntry, StepRecord, ToolCallRecord, Wake } from "../../store/runs/schema.ts";
import type { OpenStep } from "../process/run-progress.ts";
import { applyCompaction } from "./apply-compaction.ts";
import { toolMessage } from "./tool-message.ts";

/** What a run's records say of its conversation, in the form a provider takes: no call is without its result. */
export interface SavedHistory {
  /** The last step with a record; 0 when there is none. */
  step: number;
  /** Everything its model was told and said, up to where it goes on. */
  messages: Message[];
  /** The last of them, which no record holds yet. */
  unrecorded: Message[];
  /** The part of it that its model was sent for the last answer with a record, and how many tokens that was. */
  asked: { messages: Message[]; tokens: number } | null;
  /** What was made of it before the step that has no record. */
  compactions: Compaction[];
  /** The last summary of what is not in it any more. */
  summary: Compaction["summary"];
  openStep: OpenStep | null;
  /** Its model has paused in the last step with a record: it is called again with nothing added. */
  paused: boolean;
}

type Entry<T> = Extract<JournalEntry, { t: T }>;

/**
 * The conversation as it stood (design §7). `first` is the first message, for a run that was cut off before
 * anything of it was recorded. INVALID when a step in the middle can't be read: what was done in it is not known.
 */
export function rebuildHistory(
  steps: readonly StepRecord[],
  journal: readonly JournalEntry[],
  first: Message,
): SavedHistory {
  const step = lastOf(steps);
  const compactions = journal.flatMap((entry) => (entry.t === "compact" ? [entry.compaction] : []));
  const made = [...steps.flatMap((record) => record.compactions ?? []), ...compactions];
  const told = conversationOf(steps, compactions);
  const answer = journal.find((entry): entry is Entry<"answer"> => entry.t === "answer");
  const opened = answer && withCalls(answer, journal);
  const unrecorded = answer?.messages ?? (steps.length === 0 ? [first] : []);
  return {
    step,
    messages: [...told, ...unrecorded],
    unrecorded,
    asked: compactions.length > 0 ? null : lastAsked(told, steps.at(-1)),
    compactions,
    summary: made.findLast((one) => one.summary !== null)?.summary ?? null,
    openStep: opened ? openStepOf(opened, journal) : null,
    paused: !opened && unrecorded.length === 0 && steps.at(-1)?.stop_reason === "paused",
  };
}

/** What its model was told and said, with each compaction where it was. */
function conversationOf(steps: readonly StepRecord[], since: readonly Compaction[]): Message[] {
  let told: Message[] = [];
  for (const { compactions = [], messages, tool_calls } of steps) {
    for (const one of compactions) told = applyCompaction(told, one);
    told.push(...messages, ...tool_calls.map(toolMessage));
  }
  for (const one of since) told = applyCompaction(told, one);
  return told;
}

function lastAsked(told: readonly Message[], last: StepRecord | undefined): SavedHistory["asked"] {
  if (!last) return null;
  const answered = 1 + last.tool_calls.length;
  return { messages: told.slice(0, -answered), tokens: last.usage.input_tokens };
}

/** Steps count up from 1; a hole between them is a line that was lost. */
function lastOf(steps: readonly StepRecord[]): number {
  for (const [index, { step }] of steps.entries()) {
    if (step === index + 1) continue;
    throw new SyscallError(
      "INVALID",
      `Step ${index + 1} can't be read in steps.jsonl: what was done in it is lost, so the run can't go on. \`rnix steps\` lists those that are there, and \`rnix resume UUID --fork --from-step N\` begins anew after one before it.`,
    );
  }
  return steps.length;
}

/** An answer whose program called tools by itself has the calls that the journal has; without one it is none yet. */
function withCalls(answer: Entry<"answer">, journal: readonly JournalEntry[]): Entry<"answer"> | undefined {
  if (!answer.served) return answer;
  const calls = new Map<string, ToolCall>();
  for (const entry of journal) {
    if (entry.step !== answer.step) continue;
    const call = entry.t === "call_start" ? entry : entry.t === "call_end" ? entry.call : undefined;
    if (call) calls.set(call.id, { id: call.id, name: call.name, input: call.input });
  }
  if (calls.size === 0) return undefined;
  return { ...answer, message: { ...answer.message, tool_calls: [...calls.values()] } };
}

function openStepOf(answer: Entry<"answer">, journal: readonly JournalEntry[]): OpenStep {
  const { step, ts, message, reasoning, usage } = answer;
  const settled = new Map<string, ToolCallRecord>();
  const waiting = new Map<string, Wake>();
  for (const entry of journal) {
    if (entry.step !== step) continue;
    if (entry.t === "waiting") waiting.set(entry.id, entry.on);
    if (entry.t === "call_start" && !entry.safe) settled.set(entry.id, unknownCall(entry));
    // What is safe is made again, whatever became of it.
    if (entry.t === "call_end") settled.set(entry.call.id, entry.call);
  }
  // It may have been begun a second time, to go on waiting.
  for (const id of waiting.keys()) if (settled.get(id)?.state === "unknown") settled.delete(id);
  return {
    step,
    ts,
    message,
    reasoning,
    usage,
    stopReason: answer.stop_reason ?? "end_turn",
    stopWord: answer.stop_word,
    inbox: answer.inbox,
    settled: onlyCalled(message.tool_calls ?? [], settled),
    waiting,
  };
}

function onlyCalled(
  calls: readonly ToolCall[],
  settled: ReadonlyMap<string, ToolCallRecord>,
): ReadonlyMap<string, ToolCallRecord> {
  const ids = new Set(calls.map(({ id }) => id));
  return new Map([...settled].filter(([id]) => ids.has(id)));
}

/** It had started, and no end was ever recorded (design §7). */
export function unknownCall({ id, name, path, input, ts }: Entry<"call_start">): ToolCallRecord {
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
