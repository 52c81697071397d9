/** The block of a tool call, from its log entry. */

import type { CallBlock, LoggedCall } from "./transcript.ts";

export function callBlock(call: LoggedCall, now: number): CallBlock {
  const started = Date.parse(call.started_at);
  const startedMs = Number.isNaN(started) ? now : Math.min(started, now);
  return { ...call, startedMs, askedMs: null, tail: "", lines: 0 };
}

/** How long a call has run, without the time it waits for a person. */
export function runningMs({ startedMs, askedMs }: CallBlock, now: number): number {
  return Math.max(0, (askedMs ?? now) - startedMs);
}
