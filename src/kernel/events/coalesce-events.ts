/** Coalesces queued events, so that a slow client misses no text and no present state. */

import type { LiveEvent } from "../../run/live-event.ts";

/** Maximum characters of a joined event: it bounds the memory that a client uses if it does not read. */
const MAX_JOINED_CHARS = 16 * 1024;

/** Joins consecutive text deltas of a step, and consecutive output of a call: of much output, the newest. */
export function joinEvents(last: LiveEvent, next: LiveEvent): LiveEvent | undefined {
  if (last.event === "tool_output" && next.event === "tool_output") {
    if (next.call_id !== last.call_id || next.step !== last.step) return undefined;
    return { ...next, text: (last.text + next.text).slice(-MAX_JOINED_CHARS) };
  }
  if (last.event !== "text_delta" && last.event !== "reasoning_delta") return undefined;
  if (next.event !== last.event || next.step !== last.step) return undefined;
  if (last.text.length + next.text.length > MAX_JOINED_CHARS) return undefined;
  return { ...last, text: last.text + next.text };
}

/** Whether both are entries of the log that are recorded. */
export const areRecorded = (...events: LiveEvent[]): boolean =>
  events.every((event) => event.event === "log" && event.entry.n !== undefined);

/** Whether the queued event is a state that `next` replaces. */
export function supersedes(queued: LiveEvent, next: LiveEvent): boolean {
  if (queued.event === "child") return next.event === "child" && next.child.uuid === queued.child.uuid;
  if (queued.event === "unit" && queued.op === "event")
    return next.event === "unit" && next.snapshot.id === queued.snapshot.id;
  return (queued.event === "activity" || queued.event === "usage") && next.event === queued.event;
}
