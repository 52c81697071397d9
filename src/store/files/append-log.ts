/** An append-only log file of JSON lines, and its reader. */

import { errnoOf } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import { type FsPort, ioError, realFs, withFileAsync, writeAll } from "./fs-port.ts";
import { gatedSync } from "./sync-gate.ts";

/** Maximum bytes of a line. A longer line in a file is damage, and is not loaded into memory. */
const MAX_LINE_BYTES = 64 * 1024 * 1024;
const CHUNK_BYTES = 64 * 1024;
const NEWLINE = 10;

/**
 * An append-only file with one JSON document per line. Lines survive a kill when `append` returns, and a power loss
 * when `sync` returns. It has one writer at a time. The file is open only during an append, or with `keepOpen` from the
 * first append to `close`.
 */
export class AppendLog {
  readonly path: string;
  readonly #name: string;
  readonly #fs: FsPort;
  readonly #keepOpen: boolean;
  #fd: number | undefined;
  /** The file is known to end with a newline. Unknown before the first append: a crash may have torn the last line. */
  #whole = false;
  #dirty = false;
  #size = 0;
  #syncing: Promise<void> | undefined;
  #broken: SyscallError | undefined;

  /**
   * `name` is the file's name in messages: "steps.jsonl of run 0190…". `left`: an earlier writer made the file, and may
   * have been killed before it was durable.
   */
  constructor(path: string, name: string, o: { fs?: FsPort; keepOpen?: boolean; left?: boolean } = {}) {
    this.path = path;
    this.#name = name;
    this.#fs = o.fs ?? realFs;
    this.#keepOpen = o.keepOpen ?? false;
    this.#dirty = o.left ?? false;
  }

  /** Bytes in the file after the last append. */
  get size(): number {
    return this.#size;
  }

  /** Appends lines of JSON text, none of which holds a newline. All of them are written or none. */
  append(...lines: string[]): void {
    if (lines.length === 0) return;
    if (this.#broken) throw this.#broken;
    const data = Buffer.from(`${lines.join("\n")}\n`);
    if (data.length > MAX_LINE_BYTES && lines.some((line) => Buffer.byteLength(line) > MAX_LINE_BYTES)) {
      throw new SyscallError(
        "EXHAUSTED",
        `A line of ${data.length} bytes does not fit into ${this.#name}: the limit is ${MAX_LINE_BYTES} bytes.`,
      );
    }
    try {
      const fd = this.#open();
      try {
        this.#write(fd, data);
      } finally {
        if (!this.#keepOpen) this.close();
      }
    } catch (error) {
      throw ioError(error, `append to ${this.#name}`, this.path);
    }
  }

  /** Makes all appended lines durable. A failure is final, because it is unknown what was lost. */
  async sync(): Promise<void> {
    if (this.#broken) throw this.#broken;
    if (!this.#dirty) return this.#syncing;
    this.#dirty = false;
    this.#syncing = gatedSync(() => this.#fdatasync());
    return this.#syncing;
  }

  /** Removes every line. */
  empty(): void {
    try {
      const fd = this.#open();
      try {
        this.#fs.truncate(fd, 0);
        this.#size = 0;
        this.#whole = true;
        this.#dirty = true;
      } finally {
        if (!this.#keepOpen) this.close();
      }
    } catch (error) {
      throw ioError(error, `empty ${this.#name}`, this.path);
    }
  }

  /** Closes the file. The next append opens it again. */
  close(): void {
    if (this.#fd === undefined) return;
    const fd = this.#fd;
    this.#fd = undefined;
    this.#fs.close(fd);
  }

  #open(): number {
    this.#fd ??= this.#fs.open(this.path, "append");
    return this.#fd;
  }

  #write(fd: number, data: Uint8Array): void {
    const size = this.#fs.size(fd);
    // End a torn last line first, so that the new line is not part of it.
    const sealed = this.#whole || endsLine(this.#fs, fd, size) ? data : Buffer.concat([SEAL, data]);
    this.#dirty = true;
    this.#whole = false;
    try {
      writeAll(this.#fs, fd, sealed);
    } catch (error) {
      this.#cutBack(fd, size, error);
    }
    this.#size = size + sealed.length;
    this.#whole = true;
  }

  /** Removes a partly written line: the append fails, so the file must not contain it. */
  #cutBack(fd: number, size: number, cause: unknown): never {
    try {
      this.#fs.truncate(fd, size);
    } catch (error) {
      throw new AggregateError([cause, error], "the write failed and could not be undone", { cause });
    }
    throw cause;
  }

  async #fdatasync(): Promise<void> {
    try {
      // A separate descriptor: the log may be closed and reopened during the sync.
      await withFileAsync(this.#fs, this.path, "read", (fd) => this.#fs.fdatasync(fd));
    } catch (error) {
      this.#broken = ioError(error, `make ${this.#name} durable`, this.path);
      throw this.#broken;
    }
  }
}

const SEAL = Buffer.from("\n");

function endsLine(fs: FsPort, fd: number, size: number): boolean {
  if (size === 0) return true;
  const last = new Uint8Array(1);
  return fs.read(fd, last, size - 1) === 1 && last[0] === NEWLINE;
}

interface Line {
  /** From 1. */
  number: number;
  /** Where it begins in the file. */
  at: number;
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
      if (visit({ number: ++number, at, bytes, ended: true }) === false) return;
      at = base + start;
    }
    begunBytes += got - start;
    if (begunBytes > MAX_LINE_BYTES) begun = [];
    else if (start < got) begun.push(filled.slice(start));
  }
  if (begunBytes > 0) {
    visit({ number: number + 1, at, bytes: joined(begun, begunBytes, new Uint8Array(0)), ended: false });
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
}

export interface LogPage<T> extends LineFaults {
  records: T[];
  /** The `after` of the next page. Equal to `after` when there are no more lines. */
  next: number;
}

const NAMED_LINES = 100;

/**
 * Reads a page of a log: up to `limit` readable lines after line `after`. `decode` throws for a damaged line, which is
 * counted, or throws a SyscallError to abort, such as for a newer schema. `isOwn` returns whether this user's Rnix wrote
 * the line.
 */
export async function readLog<T>(
  fs: FsPort,
  path: string,
  o: {
    after: number;
    limit: number;
    decode(value: unknown, line: number): T;
    isOwn?(line: Uint8Array): boolean;
  },
): Promise<LogPage<T>> {
  const page: LogPage<T> = {
    records: [],
    damaged: 0,
    damagedLines: [],
    torn: false,
    foreign: 0,
    next: o.after,
  };
  if (o.limit <= 0) return page;
  await eachLine(fs, path, (line) => {
    if (line.number <= o.after) return true;
    const value = parseLine(line.bytes);
    const record = value === undefined ? undefined : decoded(value, line.number, o.decode);
    if (record !== undefined) {
      page.records.push(record.value);
      if (line.bytes && o.isOwn?.(line.bytes) === false) page.foreign++;
      page.next = line.number;
    } else if (line.ended) {
      countDamaged(page, line.number);
      page.next = line.number;
    } else {
      // Do not skip it: if it is being written, the next read sees all of it.
      countDamaged(page, line.number);
      page.torn = true;
    }
    return page.records.length < o.limit;
  });
  return page;
}

function countDamaged(page: LogPage<unknown>, line: number): void {
  page.damaged++;
  if (page.damagedLines.length < NAMED_LINES) page.damagedLines.push(line);
}

const strictUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Parses a line; undefined when it is not a JSON object. */
function parseLine(bytes: Uint8Array | undefined): object | undefined {
  if (bytes === undefined) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(strictUtf8.decode(bytes));
  } catch {
    return undefined; // Counted and named by the caller.
  }
  return typeof value === "object" && value !== null ? value : undefined;
}

function decoded<T>(
  value: object,
  line: number,
  decode: (value: unknown, line: number) => T,
): { value: T } | undefined {
  try {
    return { value: decode(value, line) };
  } catch (error) {
    if (error instanceof SyscallError) throw error;
    return undefined; // Counted and named by the caller.
  }
}
