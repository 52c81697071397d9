/** Reads a log file of JSON lines, whose last line may be torn. */

import { errnoOf } from "../../lib/error-detail.ts";
import { SCHEMA_VERSION } from "../../lib/schema-version.ts";
import { SyscallError } from "../../plugin/index.ts";
import { checkSchemaVersion, isOfNewerSchema } from "./document.ts";
import { type FsPort, ioError, withFileAsync } from "./fs-port.ts";

/** Maximum bytes of a line. A longer line in a file is damage, and is not loaded into memory. */
export const MAX_LINE_BYTES = 64 * 1024 * 1024;
const CHUNK_BYTES = 64 * 1024;
export const NEWLINE = 10;

interface Line {
  number: number;
  at: number;
  length: number;
  /** Valid only during the visit. Undefined for a line that exceeds the limit. */
  bytes: Uint8Array | undefined;
  /** The line ends with a newline. False only for a last line that is torn or being written. */
  ended: boolean;
}

/**
 * Visits the lines of a file in order until `visit` returns false. `from` is the byte where the first line begins. A
 * missing file has no lines.
 */
export async function eachLine(
  fs: FsPort,
  path: string,
  visit: (line: Line) => boolean | undefined,
  from = 0,
): Promise<void> {
  try {
    await withFileAsync(fs, path, "read", (fd) => eachLineOf(fs, fd, visit, from));
  } catch (error) {
    if (errnoOf(error) !== "ENOENT") throw ioError(error, "read", path);
  }
}

async function eachLineOf(
  fs: FsPort,
  fd: number,
  visit: (line: Line) => boolean | undefined,
  from: number,
): Promise<void> {
  const chunk = new Uint8Array(CHUNK_BYTES);
  let begun: Uint8Array[] = [];
  let begunBytes = 0;
  let number = 0;
  let at = from;
  for (let position = from; ; ) {
    const got = await fs.readAsync(fd, chunk, position);
    if (got === 0) break;
    const base = position;
    position += got;
    let start = 0;
    const filled = chunk.subarray(0, got);
    for (let end = filled.indexOf(NEWLINE); end >= 0; end = filled.indexOf(NEWLINE, start)) {
      const bytes = joined(begun, begunBytes, filled.subarray(start, end));
      begun = [];
      begunBytes = 0;
      start = end + 1;
      const length = base + end - at;
      if (visit({ number: ++number, at, length, bytes, ended: true }) === false) return;
      at = base + start;
    }
    begunBytes += got - start;
    if (begunBytes > MAX_LINE_BYTES) begun = [];
    else if (start < got) begun.push(filled.slice(start));
  }
  if (begunBytes > 0) {
    const bytes = joined(begun, begunBytes, new Uint8Array(0));
    visit({ number: number + 1, at, length: begunBytes, bytes, ended: false });
  }
}

function joined(begun: Uint8Array[], begunBytes: number, end: Uint8Array): Uint8Array | undefined {
  if (begunBytes === 0) return end;
  if (begunBytes + end.length > MAX_LINE_BYTES) return undefined;
  return Buffer.concat([...begun, end]);
}

/** What is wrong with the lines of a page. */
export interface LineFaults {
  /** Number of damaged lines, a torn last line included. */
  damaged: number;
  /** The first hundred of their line numbers, from 1. */
  damagedLines: number[];
  /** The last line of the file is torn or being written. */
  torn: boolean;
  /** Number of readable lines that this user's Rnix did not write. */
  foreign: number;
  /** Places where lines were left out. */
  missing: number;
}

export interface LogPosition {
  /** The line before it; 0: the beginning. */
  after: number;
  /** The byte at which the next line begins, if it is known. */
  at?: number;
  /** The number of the last event before it; absent where that has none, or can't be read. */
  lastNumber?: number;
}

export interface LogPage<T> extends LineFaults {
  records: T[];
  /** Where the next page begins: at the same line when there are no more lines. */
  next: LogPosition;
}

const NAMED_LINES = 100;

/**
 * Reads a page of a log: up to `limit` readable lines from a position on. `decode` throws for a damaged line, which is
 * counted, or throws a SyscallError to abort, such as for a newer schema. `isOwn` returns whether this user's Rnix wrote
 * the line.
 */
export async function readLog<T>(
  fs: FsPort,
  path: string,
  o: LogPosition & {
    limit: number;
    decode(value: unknown, line: number): T;
    isOwn?(line: Uint8Array): boolean;
    /** The events of a line: the number of the last, and that of the line before it. */
    numberOf?(line: Uint8Array | undefined): { n: number; p: number | undefined } | undefined;
    /** Skip the lines whose last event has this or a smaller number. */
    newer?: number;
    /** Skip the lines without this text: most of a long file need not be parsed. */
    including?: string;
  },
): Promise<LogPage<T>> {
  const page: LogPage<T> = {
    records: [],
    damaged: 0,
    damagedLines: [],
    torn: false,
    foreign: 0,
    missing: 0,
    next: { after: o.after, at: o.at ?? 0, lastNumber: o.lastNumber },
  };
  const { next } = page;
  if (o.limit <= 0) return page;
  const before = o.at === undefined ? 0 : o.after;
  const visit = (line: Line): boolean => {
    const number = before + line.number;
    if (number <= o.after) return true;
    const numbers = o.numberOf?.(line.bytes);
    if (numbers?.p !== undefined && next.lastNumber !== undefined && numbers.p !== next.lastNumber)
      page.missing++;
    next.lastNumber = numbers?.n;
    const isOld = numbers !== undefined && numbers.n <= (o.newer ?? 0);
    const isOther = o.including !== undefined && line.bytes && !textOf(line.bytes).includes(o.including);
    if ((isOld || isOther) && line.ended) {
      [next.after, next.at] = [number, line.at + line.length + 1];
      return true;
    }
    const record = decoded(line.bytes, number, o.decode);
    if (record !== undefined) {
      page.records.push(record.value);
      if (line.bytes && o.isOwn?.(line.bytes) === false) page.foreign++;
    } else countDamaged(page, number);
    // A damaged last line is not skipped: if it is being written, the next read sees all of it.
    if (record !== undefined || line.ended) {
      [next.after, next.at] = [number, line.at + line.length + 1];
    } else page.torn = true;
    return page.records.length < o.limit;
  };
  await eachLine(fs, path, visit, o.at);
  return page;
}

function textOf({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

function countDamaged(page: LogPage<unknown>, line: number): void {
  page.damaged++;
  if (page.damagedLines.length < NAMED_LINES) page.damagedLines.push(line);
}

const strictUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Undefined for a damaged line, which the caller counts and names. */
function decoded<T>(
  bytes: Uint8Array | undefined,
  line: number,
  decode: (value: unknown, line: number) => T,
): { value: T } | undefined {
  try {
    const value: unknown = bytes && JSON.parse(strictUtf8.decode(bytes));
    return typeof value === "object" && value !== null ? { value: decode(value, line) } : undefined;
  } catch (error) {
    if (error instanceof SyscallError) throw error;
    return undefined;
  }
}

/** Counts the lines of a log before an append. Fails with INVALID when a newer rnix wrote a line. */
export async function countLines(fs: FsPort, path: string, what: string): Promise<number> {
  const lines = await countIfReadable(fs, path, what);
  if (lines instanceof SyscallError) throw lines;
  return lines;
}

/** Counts the lines of an optional log. Returns the error when it can't be read. */
export async function countIfReadable(
  fs: FsPort,
  path: string,
  what: string,
): Promise<number | SyscallError> {
  let lines = 0;
  let newer: string | undefined;
  try {
    await eachLine(fs, path, ({ number, bytes }) => {
      lines = number;
      // Most lines are recognized by their first bytes, which is faster than parsing.
      if (bytes === undefined || OURS.every((byte, at) => bytes[at] === byte)) return true;
      const text = new TextDecoder().decode(bytes);
      if (!isOfNewerSchema(text)) return true;
      newer = text;
      return false;
    });
  } catch (error) {
    // Too many open files are not a fault of this file.
    if (!(error instanceof SyscallError) || error.code === "EXHAUSTED") throw error;
    return error;
  }
  if (newer !== undefined) checkSchemaVersion(JSON.parse(newer), `Line ${lines} of ${what}`);
  return lines;
}

const OURS = [...new TextEncoder().encode(`{"v":${SCHEMA_VERSION},`)];
