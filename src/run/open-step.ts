/** Selects the entries of the open step from a journal. */

import type { JournalEntry } from "./step-schema.ts";

/**
 * Returns the journal entries of the open step: its compactions and model switches, its last answer, and all entries
 * after that. Ignored are entries of recorded steps, and remains of later steps or replaced answers after a power loss.
 * No unsafe call was made for such an answer: the answer and all earlier steps are durable before it.
 */
export function openStep(entries: readonly JournalEntry[], recorded: number): JournalEntry[] {
  const open = entries.filter(({ step }) => step === recorded + 1);
  const answer = open.findLastIndex(({ t }) => t === "answer");
  return open.filter(({ t }, at) => at >= answer || t === "compact" || t === "switch");
}

/** Returns true when ignored entries could later be mistaken for the next step. */
export function isMixed(entries: readonly JournalEntry[], recorded: number): boolean {
  const later = entries.filter(({ step }) => step > recorded);
  return later.length > openStep(entries, recorded).length;
}
