/** What can happen to a run, as typed events: the one form in which records are read. */

import type { Message } from "../plugin/index.ts";
import type { JournalEntry, StepRecord, ToolCallRecord } from "./step-schema.ts";

type Entry<T extends JournalEntry["t"]> = Extract<JournalEntry, { t: T }>;

type KeptEntry = NonNullable<StepRecord["entries"]>[number];

/**
 * An event of a run. `step`: the step that it belongs to. Of a fork, the events of the steps that it began with name the
 * run that made them.
 */
export type RunEvent = { n?: number; origin_uuid?: string } & (
  | Entry<"compact">
  /** The model gets these messages, with the inbox entries of these numbers. The answer follows. */
  | { t: "read"; step: number; ts: string; messages: Message[]; inbox: readonly number[] }
  | Entry<"switch">
  /** `tools_offered`: the first tools of the prompt head, where not all were in the request. */
  | (Omit<Entry<"answer">, "v" | "messages" | "inbox"> & Pick<StepRecord, "tools_offered">)
  | (Omit<Entry<"call_start">, "path"> & Pick<ToolCallRecord, "path">)
  | KeptEntry
  | Entry<"call_end">
  /** The step is finished. The events before it are all that its record holds. */
  | { t: "step"; step: number; ts: string; record: StepRecord }
);

export type RunEventOf<T extends RunEvent["t"]> = Extract<RunEvent, { t: T }>;

/** Returns the events of a finished step: the calls one after another, also if they ran at once. */
export function eventsOfStep(record: StepRecord): RunEvent[] {
  const { ns, n, entries = [] } = record;
  const events = stepEvents(record);
  if (ns === undefined) return events;
  const numbered: RunEvent[] = events.map((event, i) => ({ ...event, n: i < events.length - 1 ? ns[i] : n }));
  return entries.length === 0 ? numbered : numbered.toSpliced(-1, 0, ...entries);
}

/** Whether the record of the step keeps the entry as it is. */
export function isKept(entry: JournalEntry): entry is KeptEntry {
  return !["answer", "call_start", "call_end", "compact", "switch"].includes(entry.t);
}

function stepEvents(record: StepRecord): RunEvent[] {
  const { step, ts, origin_uuid, inbox = [], tool_calls, reasoning, usage, interrupted } = record;
  const { stop_reason, stop_word, tools_offered } = record;
  const at = { step, ...(origin_uuid !== undefined && { origin_uuid }) };
  const messages = record.messages.slice(0, -1);
  const message = record.messages.at(-1);
  const said = { reasoning, usage, stop_reason, stop_word, interrupted, tools_offered };
  return [
    ...(record.compactions ?? []).map(
      (one) => ({ ...at, t: "compact", ts: one.ts, compaction: one }) as const,
    ),
    ...(messages.length + inbox.length > 0 ? [{ ...at, t: "read", ts, messages, inbox } as const] : []),
    ...(record.switches ?? []).map((one) => ({ ...one, ...at, t: "switch" }) as const),
    ...(message ? [{ ...at, ...said, t: "answer", ts, message } as const] : []),
    ...tool_calls.flatMap((call) => [
      startOf(call, at),
      { ...at, t: "call_end", ts: endOf(call), call } as const,
    ]),
    { ...at, t: "step", ts, record },
  ];
}

/** Returns the events of the open step. `entries`: its journal. */
export function eventsOfJournal(entries: readonly JournalEntry[]): RunEvent[] {
  const begun = new Set<string>();
  return entries.flatMap((entry) => eventsOfEntry(entry, begun));
}

/** Returns the events of an entry. `begun`: the calls that entries before it began; a call that was refused has no start. */
export function eventsOfEntry(entry: JournalEntry, begun: Set<string>): RunEvent[] {
  const { step, ts, n } = entry;
  const before = n === undefined ? {} : { n: n - 1 };
  if (entry.t === "call_start") begun.add(entry.id);
  if (entry.t === "call_end") {
    const { call } = entry;
    const end = { ...entry, ts: endOf(call) };
    return begun.has(call.id) ? [end] : [{ ...startOf(call, { step }), ...before }, end];
  }
  if (entry.t !== "answer") return [entry];
  const { messages, inbox, ...answer } = entry;
  if (messages === undefined && inbox === undefined) return [answer];
  return [{ ...before, t: "read", step, ts, messages: messages ?? [], inbox: inbox ?? [] }, answer];
}

/** Names an event among those of its step. A repeated call, or an answer that replaces one, has the same name. */
export function nameInStep(event: RunEvent): string {
  if (event.t === "call_end") return `${event.t} ${event.call.id}`;
  if (event.t === "call_start") return `${event.t} ${event.id}`;
  return event.t === "compact" || event.t === "switch" ? `${event.t} ${event.ts}` : event.t;
}

function startOf(call: ToolCallRecord, at: { step: number; origin_uuid?: string }): RunEventOf<"call_start"> {
  const { id, name, path, input, started_at } = call;
  return { ...at, t: "call_start", ts: started_at, id, name, path, input, safe: true };
}

function endOf({ started_at, duration_ms, waited_ms = 0 }: ToolCallRecord): string {
  return new Date(Date.parse(started_at) + duration_ms + waited_ms).toISOString();
}
