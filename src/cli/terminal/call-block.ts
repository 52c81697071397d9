/** The block of a tool call, from its log entry. */

import type { LogEntry } from "../output/log.ts";
import type { CallBlock } from "./transcript.ts";

export type LoggedCall = NonNullable<LogEntry["call"]>;

export function callBlock(call: LoggedCall, now: number): CallBlock {
  const { id, name, input, state, result, error, error_code, duration_ms } = call;
  const started = Date.parse(call.started_at);
  const startedMs = Number.isNaN(started) ? now : Math.min(started, now);
  return {
    id,
    name,
    input,
    startedMs,
    askedMs: null,
    state,
    result,
    error,
    errorCode: error_code,
    ms: duration_ms,
    tail: "",
    lines: 0,
  };
}

/** How long a call has run, without the time it waits for a person. */
export function runningMs({ startedMs, askedMs }: CallBlock, now: number): number {
  return Math.max(0, (askedMs ?? now) - startedMs);
}
