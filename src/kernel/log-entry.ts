import type { ToolCall } from "../plugin/index.ts";
import type { ModelSwitch, ToolCallRecord } from "../store/schema.ts";
import type { LogEntry } from "./types.ts";

/** Of a call or a result so much is shown; `rnix steps PID N` has the whole. */
const SHOWN = 2000;

type Moment = Pick<LogEntry, "ts" | "step">;

/**
 * What a model said, what it called and what came of it, as a person reads them: worded here alone, since
 * who follows a run is told from its record first and live from then on, and nothing twice.
 */
export function wordsEntry(at: Moment, kind: "text" | "thought", text: string): LogEntry {
  return { ...at, kind, text };
}

export function switchEntry({ ts, step, from, to, error }: ModelSwitch): LogEntry {
  const text = `${from.provider}/${from.model} failed (${error.code}: ${error.message}); the run goes on with ${to.provider}/${to.model}`;
  return { ts, step, kind: "model", text };
}

export function callEntry(at: Moment, call: Pick<ToolCall, "name" | "input">, path: string): LogEntry {
  const text = `${call.name} ${path} ${JSON.stringify(call.input)}`;
  return { ...at, kind: "tool", text: text.slice(0, SHOWN) };
}

export function resultEntry(at: Moment, { error, result }: ToolCallRecord): LogEntry {
  return { ...at, kind: "result", text: (error ?? result ?? "").slice(0, SHOWN) };
}
