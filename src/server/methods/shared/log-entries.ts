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
import type { StreamEvent } from "../../../protocol/methods.ts";
import type { RunEvent, RunEventOf } from "../../../run/events.ts";
import type { LogEntry } from "../../../run/live-event.ts";
import type { UnitLine } from "../../../run/unit-schema.ts";
import type { ProcInfo } from "../../../store/runs/schema.ts";
import { receiptOf } from "./receipt.ts";

/** The log of an event: what the run read, the model's thoughts and text, each call and its result. */
export function entriesOf(event: RunEvent): LogEntry[] {
  const { ts, step } = event;
  const at = { ts, step };
  switch (event.t) {
    case "compact":
      return [compactEntry(at, event.compaction)];
    case "read":
      return readIn(event, at);
    case "switch":
      return [switchEntry(event)];
    case "answer":
      return [...wordsOf(at, "thought", event.reasoning), ...wordsOf(at, "text", event.message.content)];
    case "call_start":
      return [callEntry(at, event, event.path)];
    case "call_end":
      return [resultEntry(at, event.call)];
    default:
      return [];
  }
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

/** The log of the open step so far, without the second start of a call that was repeated after a restart. */
export function entriesOfOpenStep(events: readonly RunEvent[], { cutOff }: { cutOff: boolean }): LogEntry[] {
  const begun = new Set<string>();
  const once = events.filter((event) => {
    if (event.t !== "call_start") return true;
    const isFirst = !begun.has(event.id);
    begun.add(event.id);
    return isFirst;
  });
  return [...once.flatMap(entriesOf), ...(cutOff ? unknownCalls(once) : [])];
}

/** Calls whose end is unknown. Waiting calls and read-only calls are resumed, so they are left out. */
function unknownCalls(events: readonly RunEvent[]): LogEntry[] {
  const settled = new Set<string>();
  for (const event of events) {
    if (event.t === "waiting") settled.add(event.id);
    if (event.t === "verdict") settled.delete(event.id);
    if (event.t === "call_end") settled.add(event.call.id);
  }
  return events.flatMap((event) => {
    if (event.t !== "call_start" || event.safe || settled.has(event.id)) return [];
    return [resultEntry({ ts: event.ts, step: event.step }, unknownCall(event))];
  });
}

/** Messages that had arrived when the step began: the last user message before the answer. */
function readIn({ inbox, messages }: RunEventOf<"read">, at: { ts: string; step: number }): LogEntry[] {
  const last = inbox.length === 0 ? undefined : messages.findLast(({ role }) => role === "user");
  return wordsOf(at, "inbox", last?.content);
}

function wordsOf(
  at: { ts: string; step: number },
  kind: "text" | "thought" | "inbox",
  text: string | undefined,
): LogEntry[] {
  return text === undefined || text === "" ? [] : [textEntry(at, kind, text)];
}
