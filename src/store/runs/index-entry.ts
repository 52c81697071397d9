import { z } from "zod";
import type { RecordSeal } from "./record-seal.ts";
import { ProcInfo } from "./schema.ts";

/** Another form than this is not read but written anew. */
const FORM = 3;

/** What listings sort, filter and decide by. */
const RunRow = ProcInfo.pick({
  uuid: true,
  pid: true,
  earlier_pids: true,
  kind: true,
  state: true,
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

/** One line of the file. The record itself is the next line. */
const Entry = z.object({
  form: z.literal(FORM),
  row: RunRow,
  /** Of its proc-info.json when it was read. */
  facts: FileFacts,
  /** The length of the record's line without its newline, and a hash over all. */
  bytes: z.number(),
  sum: z.string(),
});

export type IndexEntry = z.infer<typeof Entry>;

/** Two lines: the entry, and the record itself. */
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

/** Undefined for what is none: a record, or a torn or damaged line. Its run is read from its own record. */
export function parseEntry(bytes: Uint8Array): IndexEntry | undefined {
  try {
    return Entry.safeParse(JSON.parse(new TextDecoder().decode(bytes))).data;
  } catch {
    return undefined;
  }
}

/** Of all that an entry says, and of its record: one that is damaged, or of another writer, is not used. */
export function sumOf(
  { row, facts }: Pick<IndexEntry, "row" | "facts">,
  record: Uint8Array | string,
  seal: RecordSeal,
): string {
  return seal.checksumOf(JSON.stringify([row, facts]), record);
}
