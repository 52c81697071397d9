import type { ProcessEvent } from "../types.ts";

/** Maximum characters of a joined event: it bounds the memory that a client uses if it does not read. */
const MAX_JOINED_CHARS = 16 * 1024;

/** Coalesces consecutive text deltas of a step, so that a slow reader loses no text. */
export function coalesceDeltas(last: ProcessEvent, next: ProcessEvent): ProcessEvent | undefined {
  if (last.type !== "text_delta" && last.type !== "reasoning_delta") return undefined;
  if (next.type !== last.type || next.step !== last.step) return undefined;
  if (last.text.length + next.text.length > MAX_JOINED_CHARS) return undefined;
  return { ...last, text: last.text + next.text };
}
