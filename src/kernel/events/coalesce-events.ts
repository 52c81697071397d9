/** Coalesces queued events, so that a slow client misses no text and no present state. */

import type { ProcessEvent } from "../process/event.ts";

/** Maximum characters of a joined event: it bounds the memory that a client uses if it does not read. */
const MAX_JOINED_CHARS = 16 * 1024;

/** Joins consecutive text deltas of a step, and consecutive output of a call: of much output, the newest. */
export function joinEvents(last: ProcessEvent, next: ProcessEvent): ProcessEvent | undefined {
  if (last.type === "tool_output" && next.type === "tool_output") {
    if (next.callId !== last.callId || next.step !== last.step) return undefined;
    return { ...next, text: (last.text + next.text).slice(-MAX_JOINED_CHARS) };
  }
  if (last.type !== "text_delta" && last.type !== "reasoning_delta") return undefined;
  if (next.type !== last.type || next.step !== last.step) return undefined;
  if (last.text.length + next.text.length > MAX_JOINED_CHARS) return undefined;
  return { ...last, text: last.text + next.text };
}

/** Whether the queued event is a state that `next` replaces. */
export function supersedes(queued: ProcessEvent, next: ProcessEvent): boolean {
  if (queued.type === "child") return next.type === "child" && next.child.uuid === queued.child.uuid;
  if (queued.type === "unit" && queued.op === "event")
    return next.type === "unit" && next.snapshot.id === queued.snapshot.id;
  return (queued.type === "activity" || queued.type === "usage") && next.type === queued.type;
}
