/** The format of an entry in the index of runs. */

import { z } from "zod";
import type { RecordSeal } from "./record-seal.ts";
import { ProcInfo } from "./schema.ts";

/** Version of the entry format. Entries of another version are ignored and written again. */
const FORM = 4;

/** The fields of a record that listings sort and filter by. */
const RunRow = ProcInfo.pick({
  uuid: true,
  pid: true,
  earlier_pids: true,
  kind: true,
  state: true,
  chat: true,
  project: true,
  parent_uuid: true,
  origin_uuid: true,
  created_at_ms: true,
  ended_at_ms: true,
  kernel: true,
  suspended: true,
  foreign: true,
  moved_from: true,
});
export type RunRow = z.infer<typeof RunRow>;

const FileFacts = z.object({ size: z.number(), mtimeMs: z.number(), ino: z.number() });
export type FileFacts = z.infer<typeof FileFacts>;

/** One line of the index file. The record itself is the next line. */
const IndexEntry = z.object({
  form: z.literal(FORM),
  row: RunRow,
  /** State of the run's proc-info.json when it was read. */
  facts: FileFacts,
  /** The length of the record's line without its newline, and a hash over all. */
  bytes: z.number(),
  sum: z.string(),
});

export type IndexEntry = z.infer<typeof IndexEntry>;

/** Returns two lines: the entry and the record. */
export function entryLines(
  of: Pick<IndexEntry, "row" | "facts" | "bytes" | "sum">,
  record: string,
): string[] {
  const { row, facts, bytes, sum } = of;
  return [JSON.stringify({ form: FORM, row, facts, bytes, sum }), record];
}

export function rowOf(info: ProcInfo): RunRow {
  return RunRow.parse(info);
}

/** Parses an entry; undefined for a record and for a torn or damaged line. That run is then read from its own record. */
export function parseEntry(bytes: Uint8Array): IndexEntry | undefined {
  try {
    return IndexEntry.safeParse(JSON.parse(new TextDecoder().decode(bytes))).data;
  } catch {
    return undefined;
  }
}

/** Returns the checksum of an entry and its record. An entry with another checksum is damaged or foreign, and ignored. */
export function sumOf(
  { row, facts }: Pick<IndexEntry, "row" | "facts">,
  record: Uint8Array | string,
  seal: RecordSeal,
): string {
  return seal.checksumOf(JSON.stringify([row, facts]), record);
}
