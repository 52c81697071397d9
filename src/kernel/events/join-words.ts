import type { ProcessEvent } from "../types.ts";

/** Characters of joined words: what a client that does not read makes us keep is so much times its queue. */
const MOST = 16 * 1024;

/** The words of one step that follow each other, as one event: a reader who is behind misses none of them. */
export function joinWords(last: ProcessEvent, next: ProcessEvent): ProcessEvent | undefined {
  if (last.type !== "text_delta" && last.type !== "reasoning_delta") return undefined;
  if (next.type !== last.type || next.step !== last.step) return undefined;
  if (last.text.length + next.text.length > MOST) return undefined;
  return { ...last, text: last.text + next.text };
}
