import type { JournalEntry } from "./schema.ts";

/**
 * Of a journal's entries those of the step that has no record: what was made of the conversation before it, its last
 * answer, and what followed. Everything else is void: what is recorded, and what a power loss has left of later steps, or of an answer that was asked for again.
 * Nothing was done on such an answer's word: before a call that may not be made twice all steps before it, and the
 * answer itself, are durable.
 */
export function openStep(entries: readonly JournalEntry[], recorded: number): JournalEntry[] {
  const open = entries.filter(({ step }) => step === recorded + 1);
  const answer = open.findLastIndex(({ t }) => t === "answer");
  return open.filter(({ t }, at) => at >= answer || t === "compact");
}

/** There is something void in it that a later reader could take for the step after this one. */
export function isMixed(entries: readonly JournalEntry[], recorded: number): boolean {
  const later = entries.filter(({ step }) => step > recorded);
  return later.length > openStep(entries, recorded).length;
}
