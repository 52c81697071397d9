import { unknownCall } from "../../../kernel/conversation/rebuild-history.ts";
import {
  callEntry,
  compactEntry,
  resultEntry,
  switchEntry,
  wordsEntry,
} from "../../../kernel/events/log-entry.ts";
import type { LogEntry } from "../../../kernel/types.ts";
import type { Message } from "../../../plugin/index.ts";
import type { JournalEntry, ProcInfo, StepRecord, ToolCallRecord } from "../../../store/runs/schema.ts";

/** A finished step as its log: what it was told of its inbox, the model's thoughts and words, then each call and what came of it. */
export function entriesOfStep(record: StepRecord): LogEntry[] {
  const { step, ts } = record;
  const words = record.messages.filter(({ role }) => role === "assistant");
  return [
    ...(record.compactions ?? []).map((one) => compactEntry({ ts: one.ts, step }, one)),
    ...heardIn(record, { ts, step }),
    ...(record.switches ?? []).map(switchEntry),
    ...wordsOf({ ts, step }, "thought", record.reasoning),
    ...words.flatMap(({ content }) => wordsOf({ ts, step }, "text", content)),
    ...record.tool_calls.flatMap((call) => [
      callEntry({ ts: call.started_at, step }, call, call.path ?? ""),
      resultEntry({ ts: endOf(call), step }, call),
    ]),
  ];
}

/** What a program printed last, as far as it is kept, and how it ended. */
export function entriesOfProgram(info: ProcInfo): LogEntry[] {
  const at = { ts: new Date(info.ended_at_ms ?? info.created_at_ms).toISOString(), step: 0 };
  if (info.exit_reason === null) {
    return [{ ...at, kind: "unit", text: "it is running: its last output is shown when it has ended" }];
  }
  const ended = `ended: ${info.exit_reason} (exit ${info.exit_code})`;
  return [...wordsOf(at, "text", info.result ?? ""), { ...at, kind: "unit", text: ended }];
}

/** The open step, as far as it has come. `cutOff`: nobody makes its calls any more. */
export function entriesOfJournal(journal: JournalEntry[], { cutOff }: { cutOff: boolean }): LogEntry[] {
  return [...journal.flatMap(entriesOf), ...(cutOff ? openCalls(journal) : [])];
}

/** Calls whose end nobody knows. One that waits, and one that does no harm, is gone on with. */
function openCalls(journal: JournalEntry[]): LogEntry[] {
  const settled = new Set<string>();
  for (const entry of journal) {
    if (entry.t === "waiting") settled.add(`${entry.step} ${entry.id}`);
    if (entry.t === "call_end") settled.add(`${entry.step} ${entry.call.id}`);
  }
  return journal.flatMap((entry) => {
    if (entry.t !== "call_start" || entry.safe || settled.has(`${entry.step} ${entry.id}`)) return [];
    return [resultEntry({ ts: entry.ts, step: entry.step }, unknownCall(entry))];
  });
}

function entriesOf(entry: JournalEntry): LogEntry[] {
  const { ts, step } = entry;
  switch (entry.t) {
    case "answer":
      return [
        ...heardIn(entry, { ts, step }),
        ...wordsOf({ ts, step }, "thought", entry.reasoning),
        ...wordsOf({ ts, step }, "text", entry.message.content),
      ];
    case "call_start":
      return [callEntry({ ts, step }, entry, entry.path)];
    case "compact":
      return [compactEntry({ ts, step }, entry.compaction)];
    // Its start is told, and its end when it comes.
    case "waiting":
      return [];
    case "call_end":
      return [resultEntry({ ts: endOf(entry.call), step }, entry.call)];
  }
}

/** What had arrived when a step began: the last words that its model was told before it answered. */
function heardIn(
  { inbox, messages = [] }: Pick<StepRecord, "inbox"> & { messages?: Message[] },
  at: { ts: string; step: number },
): LogEntry[] {
  if (inbox === undefined || inbox.length === 0) return [];
  return wordsOf(at, "inbox", messages.findLast(({ role }) => role === "user")?.content);
}

function wordsOf(
  at: { ts: string; step: number },
  kind: "text" | "thought" | "inbox",
  text: string | undefined,
): LogEntry[] {
  return text === undefined || text === "" ? [] : [wordsEntry(at, kind, text)];
}

function endOf({ started_at, duration_ms }: ToolCallRecord): string {
  return new Date(Date.parse(started_at) + duration_ms).toISOString();
}
