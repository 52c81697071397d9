/** Converts records to the entries of a run's log. */

import { unknownCall } from "../../../kernel/conversation/rebuild-history.ts";
import {
  callEntry,
  compactEntry,
  resultEntry,
  switchEntry,
  textEntry,
  unitEntry,
} from "../../../kernel/events/log-entry.ts";
import type { LogEntry } from "../../../kernel/process/event.ts";
import type { Message } from "../../../plugin/index.ts";
import type { StreamEvent } from "../../../protocol/methods.ts";
import type { JournalEntry, ProcInfo, StepRecord, ToolCallRecord } from "../../../store/runs/schema.ts";
import type { UnitLine } from "../../../store/runs/unit-schema.ts";
import { receiptOf } from "./receipt.ts";

/** The log of a finished step: messages from its inbox, the model's thoughts and text, then each call and its result. */
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
      callEntry({ ts: call.started_at, step }, call, call.path),
      resultEntry({ ts: endOf(call), step }, call),
    ]),
  ];
}

/** The last output of a program, as far as it is recorded, and how it ended. */
export function entriesOfProgram(info: ProcInfo): LogEntry[] {
  const at = { ts: new Date(info.ended_at_ms ?? info.created_at_ms).toISOString(), step: 0 };
  if (info.exit_reason === null) {
    return [{ ...at, kind: "unit", text: "it is running: its last output is shown when it has ended" }];
  }
  const ended = `ended: ${info.exit_reason} (exit ${info.exit_code})`;
  return [...wordsOf(at, "text", info.result ?? ""), { ...at, kind: "unit", text: ended }];
}

/** The starts and ends of the run's background units. */
export function entriesOfUnits(lines: readonly UnitLine[]): LogEntry[] {
  return lines.flatMap((line) => {
    if (line.t === "started") return unitEntry("added", line.snapshot) ?? [];
    return line.t === "ended" ? (unitEntry(line.snapshot.status, line.snapshot) ?? []) : [];
  });
}

/** How the run ended or why it was suspended: its last entry. None while it lives. */
export function endEntries(info: ProcInfo): Extract<StreamEvent, { type: "log_entry" }>["payload"][] {
  if (info.exit_reason === null) return [];
  const { result: _, output: __, ...end } = receiptOf(info);
  const ts = new Date(info.ended_at_ms ?? info.created_at_ms).toISOString();
  const why = end.error?.message ?? end.suspended?.reason;
  const text = `${end.exit_reason} (exit ${end.exit_code})${why === undefined ? "" : `: ${why}`}`;
  return [{ ts, step: info.steps, kind: "end", text, end }];
}

/** The log of the open step so far. `cutOff`: its process is gone. */
export function entriesOfJournal(journal: JournalEntry[], { cutOff }: { cutOff: boolean }): LogEntry[] {
  const begun = new Set(
    journal.flatMap((entry) => (entry.t === "call_start" ? callKey(entry.step, entry) : [])),
  );
  const once = onceBegun(journal);
  return [...once.flatMap((entry) => entriesOf(entry, begun)), ...(cutOff ? openCalls(once) : [])];
}

/** Without the second start of a call that was repeated after a restart. */
function onceBegun(journal: readonly JournalEntry[]): JournalEntry[] {
  const begun = new Set<string>();
  return journal.filter((entry) => {
    if (entry.t !== "call_start") return true;
    const key = callKey(entry.step, entry);
    const isFirst = !begun.has(key);
    begun.add(key);
    return isFirst;
  });
}

function callKey(step: number, { id }: { id: string }): string {
  return `${step} ${id}`;
}

/** Calls whose end is unknown. Waiting calls and read-only calls are resumed, so they are left out. */
function openCalls(journal: JournalEntry[]): LogEntry[] {
  const settled = new Set<string>();
  for (const entry of journal) {
    if (entry.t === "waiting") settled.add(callKey(entry.step, entry));
    if (entry.t === "verdict") settled.delete(callKey(entry.step, entry));
    if (entry.t === "call_end") settled.add(callKey(entry.step, entry.call));
  }
  return journal.flatMap((entry) => {
    if (entry.t !== "call_start" || entry.safe || settled.has(callKey(entry.step, entry))) return [];
    return [resultEntry({ ts: entry.ts, step: entry.step }, unknownCall(entry))];
  });
}

/** `begun`: the calls with a start. One that was refused has none. */
function entriesOf(entry: JournalEntry, begun: ReadonlySet<string>): LogEntry[] {
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
    // Its start is logged, and its end when it comes.
    case "waiting":
    case "verdict":
      return [];
    case "call_end":
      return [
        ...(begun.has(callKey(step, entry.call))
          ? []
          : [callEntry({ ts: entry.call.started_at, step }, entry.call, entry.call.path)]),
        resultEntry({ ts: endOf(entry.call), step }, entry.call),
      ];
  }
}

/** Messages that had arrived when the step began: the last user message before the answer. */
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
  return text === undefined || text === "" ? [] : [textEntry(at, kind, text)];
}

function endOf({ started_at, duration_ms, waited_ms = 0 }: ToolCallRecord): string {
  return new Date(Date.parse(started_at) + duration_ms + waited_ms).toISOString();
}
