import type { z } from "zod";
import { bytesOf, type InboxRest } from "./inbox-log.ts";
import { SEAL_BYTES } from "./record-seal.ts";
import type { InboxEntry, InboxLine, JournalEntry } from "./schema.ts";

/** What has arrived for a run and no record acknowledges, in the order it came. */
export interface UnreadMessages extends InboxRest {
  unread: InboxEntry[];
}

/** Of an inbox's file of so many bytes, where records acknowledge these numbers. */
export function unreadMessages(
  lines: readonly z.infer<typeof InboxLine>[],
  acknowledged: readonly number[],
  bytes: number,
): UnreadMessages {
  const spent = new Set(acknowledged);
  for (const line of lines) if (line.kind === "taken") for (const seq of line.seqs) spent.add(seq);
  const entries = lines.filter((line) => line.kind !== "taken");
  const unread = entries.filter(({ seq }) => !spent.has(seq));
  // A file that was emptied has no lines, and still its numbers are not given again.
  const given = [...entries.map(({ seq }) => seq), ...spent];
  return {
    unread,
    last: given.reduce((last, seq) => Math.max(last, seq), 0),
    spentBytes: unread.reduce((left, line) => left - bytesOf(JSON.stringify(line)) - SEAL_BYTES, bytes),
  };
}

/** The inbox numbers that the entries of an open step have told the model. */
export function deliveredBy(entries: readonly JournalEntry[]): Set<number> {
  return new Set(
    entries.flatMap((entry) => {
      if (entry.t === "answer") return entry.inbox ?? [];
      return entry.t === "call_end" ? (entry.call.inbox ?? []) : [];
    }),
  );
}
