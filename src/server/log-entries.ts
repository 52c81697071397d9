import type { LogEntry } from "../kernel/types.ts";
import type { JournalEntry, StepRecord, ToolCallRecord } from "../store/schema.ts";

export type { LogEntry };

/** Of a call or a result so much is shown; `rnix steps PID N` has the whole. */
const SHOWN = 2000;

/** A finished step as its log: the model's words, then each call and what came of it. */
export function entriesOfStep(record: StepRecord): LogEntry[] {
  const { step, ts } = record;
  const words = record.messages.filter(({ role }) => role === "assistant");
  return [
    ...words.flatMap(({ content }) => textEntry(ts, step, content)),
    ...record.tool_calls.flatMap((call) => [
      toolEntry(call.started_at, step, call.name, call.path ?? "", call.input),
      resultEntry(step, call),
    ]),
  ];
}

/** The open step, as far as it has come. */
export function entriesOfJournal(journal: JournalEntry[]): LogEntry[] {
  return journal.flatMap(entriesOf);
}

function entriesOf(entry: JournalEntry): LogEntry[] {
  switch (entry.t) {
    case "answer":
      return textEntry(entry.ts, entry.step, entry.message.content);
    case "call_start":
      return [toolEntry(entry.ts, entry.step, entry.name, entry.path, entry.input)];
    case "call_end":
      return [resultEntry(entry.step, entry.call)];
  }
}

function textEntry(ts: string, step: number, text: string): LogEntry[] {
  return text === "" ? [] : [{ ts, step, kind: "text", text }];
}

function toolEntry(ts: string, step: number, name: string, path: string, input: object): LogEntry {
  return { ts, step, kind: "tool", text: `${name} ${path} ${JSON.stringify(input)}`.slice(0, SHOWN) };
}

function resultEntry(step: number, call: ToolCallRecord): LogEntry {
  const ts = new Date(Date.parse(call.started_at) + call.duration_ms).toISOString();
  return { ts, step, kind: "result", text: (call.error ?? call.result ?? "").slice(0, SHOWN) };
}
