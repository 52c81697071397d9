/** Applies a compaction to a conversation. */

import type { Message } from "../../plugin/index.ts";
import type { Compaction } from "../../store/runs/schema.ts";

/**
 * Applies a compaction to a conversation. The live run and the rebuild from records use the same function. Messages
 * that were appended since stay unchanged.
 */
export function applyCompaction(
  messages: readonly Message[],
  { cut, summary }: Pick<Compaction, "cut" | "summary">,
): Message[] {
  const all = messages.slice();
  for (const { at, content } of cut) {
    const message = all[at];
    if (message) all[at] = { ...message, content };
  }
  return summary ? [summary.message, ...all.slice(summary.to)] : all;
}
