import type { Message } from "../../plugin/index.ts";
import type { Compaction } from "../../store/runs/schema.ts";

/**
 * The conversation after a compaction: the same for the live run and for whoever makes it again from its records.
 * What was appended since is kept as it is.
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
