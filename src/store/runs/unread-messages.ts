/** Computes the unread entries of an inbox. */

import type { z } from "zod";
import { bytesOf, type InboxState } from "./inbox-log.ts";
import { SEAL_BYTES } from "./record-key.ts";
import type { InboxEntry, InboxLine } from "./schema.ts";

/** The entries of an inbox that no record acknowledges, in order of arrival. */
export interface UnreadMessages extends InboxState {
  unread: InboxEntry[];
}

/** Returns the unread entries. `acknowledged`: the numbers in the records; `bytes`: the size of the inbox file. */
export function unreadMessages(
  lines: readonly z.infer<typeof InboxLine>[],
  acknowledged: readonly number[],
  bytes: number,
): UnreadMessages {
  const spent = new Set(acknowledged);
  for (const line of lines) if (line.kind === "taken") for (const seq of line.seqs) spent.add(seq);
  const entries = lines.filter((line) => line.kind !== "taken" && line.kind !== "keys");
  const unread = entries.filter(({ seq }) => !spent.has(seq));
  // An emptied file has no lines, but its numbers must not be assigned again.
  const given = [...entries.map(({ seq }) => seq), ...spent];
  return {
    unread,
    keys: new Map(lines.flatMap(keysOf)),
    last: given.reduce((last, seq) => Math.max(last, seq), 0),
    spentBytes: unread.reduce((left, line) => left - bytesOf(JSON.stringify(line)) - SEAL_BYTES, bytes),
  };
}

function keysOf(line: z.infer<typeof InboxLine>): [string, number][] {
  if (line.kind === "keys") return line.keys;
  return line.kind === "input" && line.key !== undefined ? [[line.key, line.seq]] : [];
}
