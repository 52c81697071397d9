/**
 * Builds the entries of a run's log. All are built here, because a follower gets them from the record first and then
 * live, and both must be the same.
 */

import { unitLine } from "../../daemons/unit-line.ts";
import { formatDuration } from "../../lib/duration.ts";
import type { DaemonSnapshot, ToolCall } from "../../plugin/index.ts";
import type { RunEvent, RunEventOf } from "../../run/events.ts";
import type { LiveEvent, LogEntry } from "../../run/live-event.ts";
import type { Compaction, ModelSwitch, ToolCallRecord } from "../../store/runs/schema.ts";

/** Maximum characters shown of a call or result; `rnix steps PID N` shows all. */
const SHOWN = 2000;

type Moment = Pick<LogEntry, "ts" | "step">;

/** The log of an event: what the run read, the model's thoughts and text, each call and its result. */
export function entriesOf(event: RunEvent): LogEntry[] {
  const { n } = event;
  const entries = wordsAndCalls(event);
  if (n === undefined) return entries;
  return entries.map((entry, i) => ({ n: n - (entries.length - 1 - i) / 2, ...entry }));
}

function wordsAndCalls(event: RunEvent): LogEntry[] {
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

/** Messages that had arrived when the step began: the last user message before the answer. */
function readIn({ inbox, messages }: RunEventOf<"read">, at: { ts: string; step: number }): LogEntry[] {
  const last = inbox.length === 0 ? undefined : messages.findLast(({ role }) => role === "user");
  return wordsOf(at, "inbox", last?.content).map((entry) => ({ ...entry, seqs: inbox }));
}

/** None for no text. */
export function wordsOf(
  at: { ts: string; step: number },
  kind: "text" | "thought" | "inbox",
  text: string | undefined,
): LogEntry[] {
  return text === undefined || text === "" ? [] : [textEntry(at, kind, text)];
}

export function textEntry(at: Moment, kind: "text" | "thought" | "inbox", text: string): LogEntry {
  return { ...at, kind, text };
}

export function switchEntry({ ts, step, from, to, error }: ModelSwitch): LogEntry {
  const next = `${to.provider}/${to.model}`;
  const text =
    error === null
      ? `the user chose ${next} instead of ${from.provider}/${from.model}`
      : `${from.provider}/${from.model} failed (${error.code}: ${error.message}); the run continues with ${next}`;
  return { ts, step, kind: "model", text };
}

export function retryEntry(
  { step, attempt, delay_ms, message }: Extract<LiveEvent, { event: "retry" }>,
  now: number,
): LogEntry {
  const text = `attempt ${attempt} failed: ${message}; retry in ${formatDuration(delay_ms)}`;
  return { ts: new Date(now).toISOString(), step, kind: "model", text };
}

/** Logs the start or the end of a background unit; undefined for any other change of it. */
export function unitEntry(op: string, snapshot: DaemonSnapshot, step = 0): LogEntry | undefined {
  const text = unitLine(op, snapshot);
  return text === null
    ? undefined
    : { ts: snapshot.ended_at ?? snapshot.started_at, step, kind: "unit", text };
}

/** Logs a compaction, which explains why the model may have forgotten something. */
export function compactEntry(
  at: Moment,
  { why, tokens_before, tokens_after, cut, summary }: Compaction,
): LogEntry {
  const because = { tokens: "", too_long: ", which its model refused as too long", asked: ", as asked for" }[
    why
  ];
  const by = summary?.by === "model" ? "by the model" : "without the model";
  const done = [
    cut.length > 0 ? `${cut.length} long ${cut.length === 1 ? "message" : "messages"} cut` : "",
    summary ? `${summary.to} messages summarised ${by}` : "",
  ].filter(Boolean);
  const text = `conversation compacted from about ${tokens_before} to ${tokens_after} tokens${because}: ${done.join(", ")}`;
  return { ...at, kind: "compact", text };
}

export function callEntry(
  at: Moment,
  { id, name, input }: Pick<ToolCall, "id" | "name" | "input">,
  path: string | null,
): LogEntry {
  const text = `${name} ${path ?? ""} ${JSON.stringify(input)}`;
  const ended = { result: null, error: null, error_code: null, duration_ms: null };
  const call = { id, name, path, input, state: "running", ...ended, started_at: at.ts } as const;
  return { ...at, kind: "tool", text: text.slice(0, SHOWN), call };
}

export function resultEntry(at: Moment, { kept: _, inbox: __, ...call }: ToolCallRecord): LogEntry {
  const text = [call.error, call.result].filter(Boolean).join("\n");
  return { ...at, kind: "result", text: text.slice(0, SHOWN), call };
}
