/** The index that makes listing runs fast. */

import { dirname, join } from "node:path";
import { SyscallError } from "../../plugin/index.ts";
import { AppendLog, eachLine } from "../files/append-log.ts";
import { requireNoLink } from "../files/data-dir.ts";
import { makeFolder, parseDocument } from "../files/document.ts";
import { FileLock } from "../files/file-lock.ts";
import { errno, type FsPort, ioError, writeAll } from "../files/fs-port.ts";
import { TimeSlices } from "../files/time-slice.ts";
import {
  entryLines,
  type FileFacts,
  type IndexEntry,
  parseEntry,
  type RunRow,
  rowOf,
  sumOf,
} from "./index-entry.ts";
import type { RecordSeal } from "./record-seal.ts";
import { INFO } from "./run-writer.ts";
import { ProcInfo } from "./schema.ts";

/** The index file below the data folder. It can be deleted: the next listing writes it again. */
export const INDEX_FILE = join("index", "runs.jsonl");

/** Records read in parallel. */
const READERS = 32;
/** Rows written in one call. */
const BATCH = 100;
/** A longer record is not copied into the index, but read from its own file each time. */
const MAX_INFO_BYTES = 64 * 1024;
/** How long a listing is reused for later pages. */
const RECENT_MS = 2000;
/** Outdated rows allowed in the file, beyond as many as it has current ones. */
const SPENT_ROWS = 1000;

const NO_FILE = -1;

interface KnownRun {
  row: RunRow;
  facts: FileFacts;
  /** Position of its record in the index file; null: only in its own file. */
  at: { offset: number; bytes: number; sum: string } | null;
  /** The record was validated, and validation changes nothing in it: it need not be validated again. */
  isValidated?: true;
}

export type { RunRow };

export interface DamagedRun {
  uuid: string;
  error: SyscallError;
}

interface Listing {
  /** Rows of all readable runs, oldest first. */
  rows: RunRow[];
  /** Runs that could not be read, and why. */
  damaged: DamagedRun[];
}

interface RunIndexPorts {
  dataDir: string;
  fs: FsPort;
  /** Authenticates the entries of this index. An entry of another writer is ignored. */
  seal: RecordSeal;
  /** Sorted names of the runs' folders, with or without a record. */
  uuids(): Promise<string[]>;
  /** The absolute folder of a run. */
  runDir(uuid: string): string;
  /** Reads a run's own record. */
  info(uuid: string): Promise<ProcInfo | null>;
}

/**
 * An index of the ended runs in a data folder, so that a listing does not read every record. A row is valid while the
 * run's proc-info.json has the same size, time and inode, so changes to a run need no update here. All other runs are
 * read. Several kernels may share the file: rows are added under a lock, and skipped when the lock is taken.
 */
export class RunIndex {
  readonly #ports: RunIndexPorts;
  readonly #path: string;
  readonly #known = new Map<string, KnownRun>();
  /** The part of the file that is loaded into `known`. */
  #loaded = { ino: NO_FILE, bytes: 0, rows: 0 };
  #listing: Promise<Listing> | undefined;
  #last: { listing: Listing; at: number } | undefined;
  /** The next listing, for callers that came during a listing: that one may have missed their run. */
  #following: Promise<Listing> | undefined;

  constructor(ports: RunIndexPorts) {
    this.#ports = ports;
    this.#path = join(ports.dataDir, INDEX_FILE);
  }

  list(): Promise<Listing> {
    if (!this.#listing) return this.#begin();
    this.#following ??= this.#listing.then(nothing, nothing).then(() => {
      this.#following = undefined;
      return this.#begin();
    });
    return this.#following;
  }

  /** Returns the last listing if it is recent, for later pages; otherwise a new one. */
  recent(): Promise<Listing> {
    const last = this.#last;
    return last && performance.now() - last.at < RECENT_MS ? Promise.resolve(last.listing) : this.list();
  }

  /** Returns the records of these rows, in order. Runs removed meanwhile are left out. */
  async infos(rows: readonly RunRow[]): Promise<ProcInfo[]> {
    const found: ProcInfo[] = [];
    const slices = new TimeSlices();
    const fd = this.#open();
    try {
      for (const { uuid } of rows) {
        await slices.pause();
        const info = this.#recordOf(fd, uuid) ?? (await this.#ports.info(uuid));
        if (info) found.push(info);
      }
    } finally {
      if (fd !== undefined) this.#ports.fs.close(fd);
    }
    return found;
  }

  #begin(): Promise<Listing> {
    this.#listing = this.#list().finally(() => {
      this.#listing = undefined;
    });
    return this.#listing;
  }

  async #list(): Promise<Listing> {
    const uuids = await this.#ports.uuids();
    await this.#load();
    const { changed, facts } = await this.#compare(uuids);
    const damaged: DamagedRun[] = [];
    const open = new Map<string, RunRow>();
    for (let i = 0; i < changed.length; i += BATCH) {
      const read = await this.#readAll(changed.slice(i, i + BATCH), damaged);
      for (const info of read) if (info.ended_at_ms === null) open.set(info.uuid, rowOf(info));
      await this.#add(
        read.filter((info) => info.ended_at_ms !== null),
        facts,
      );
    }
    await this.#forget(new Set(uuids));
    const rows = uuids.flatMap((uuid) => this.#known.get(uuid)?.row ?? open.get(uuid) ?? []);
    const listing = { rows, damaged };
    this.#last = { listing, at: performance.now() };
    return listing;
  }

  /** Finds the runs whose record changed, in time slices, so that the thread is not blocked. */
  async #compare(uuids: readonly string[]): Promise<{ changed: string[]; facts: Map<string, FileFacts> }> {
    const { fs, runDir } = this.#ports;
    const changed: string[] = [];
    const all = new Map<string, FileFacts>();
    const slices = new TimeSlices();
    for (const uuid of uuids) {
      await slices.pause();
      const facts = fs.stat(`${runDir(uuid)}/${INFO}`);
      const known = this.#known.get(uuid);
      if (known && facts && sameFile(known.facts, facts)) continue;
      this.#known.delete(uuid);
      changed.push(uuid);
      // The state is taken before the read: a record replaced in between is read again next time.
      if (facts) all.set(uuid, facts);
    }
    return { changed, facts: all };
  }

  async #readAll(uuids: readonly string[], damaged: DamagedRun[]): Promise<ProcInfo[]> {
    const found = new Map<string, ProcInfo>();
    const left = uuids.values();
    const reader = async (): Promise<void> => {
      for (const uuid of left) {
        const info = await this.#read(uuid);
        if (info instanceof SyscallError) damaged.push({ uuid, error: info });
        else if (info) found.set(uuid, info);
      }
    };
    await Promise.all(Array.from({ length: READERS }, reader));
    damaged.sort((a, b) => (a.uuid < b.uuid ? -1 : 1));
    return [...found.values()];
  }

  async #read(uuid: string): Promise<ProcInfo | SyscallError | null> {
    try {
      const info = await this.#ports.info(uuid);
      if (info !== null) return info;
      // The folder may have been removed since the names were read.
      return this.#ports.fs.stat(this.#ports.runDir(uuid)) === null ? null : noRecord(uuid);
    } catch (error) {
      if (error instanceof SyscallError) return error;
      throw error;
    }
  }

  /** Loads the rows that this and other kernels have added. */
  async #load(): Promise<void> {
    const { fs } = this.#ports;
    const file = fs.stat(this.#path);
    const ino = file?.ino ?? NO_FILE;
    if (ino !== this.#loaded.ino || (file?.size ?? 0) < this.#loaded.bytes) {
      this.#known.clear();
      this.#loaded = { ino, bytes: 0, rows: 0 };
    }
    if (file === null || file.size === this.#loaded.bytes) return;
    let entry: IndexEntry | undefined;
    const take = ({
      at,
      bytes,
      ended,
    }: {
      at: number;
      bytes: Uint8Array | undefined;
      ended: boolean;
    }): true => {
      // A line that is being written is loaded next time.
      if (!ended || bytes === undefined) return true;
      if (
        typeof entry?.row.ended_at_ms === "number" &&
        bytes.length === entry.bytes &&
        sumOf(entry, bytes, this.#ports.seal) === entry.sum
      ) {
        this.#know(entry.row, entry.facts, { offset: at, bytes: entry.bytes, sum: entry.sum });
        this.#loaded.bytes = at + bytes.length + 1;
        entry = undefined;
      } else {
        entry = parseEntry(bytes);
      }
      return true;
    };
    await this.#unlessDamaged(() => eachLine(fs, this.#path, take, this.#loaded.bytes));
  }

  #know(row: RunRow, facts: FileFacts, at: KnownRun["at"]): void {
    this.#known.set(row.uuid, { row, facts, at });
    if (at) this.#loaded.rows++;
  }

  /** Adds ended runs. If the write fails, they stay known in memory. */
  async #add(infos: readonly ProcInfo[], facts: ReadonlyMap<string, FileFacts>): Promise<void> {
    const lines = infos.flatMap((info) => {
      const found = facts.get(info.uuid);
      if (!found) return [];
      const of = { row: rowOf(info), facts: { size: found.size, mtimeMs: found.mtimeMs, ino: found.ino } };
      this.#know(of.row, of.facts, null);
      const text = JSON.stringify(info);
      const bytes = Buffer.byteLength(text);
      return bytes > MAX_INFO_BYTES
        ? []
        : entryLines({ ...of, bytes, sum: sumOf(of, text, this.#ports.seal) }, text);
    });
    if (lines.length === 0) return;
    const log = new AppendLog(this.#path, "the index of runs", { fs: this.#ports.fs });
    await this.#locked(() => log.append(...lines));
  }

  /** Drops removed runs, and rewrites the file when most rows are outdated. */
  async #forget(there: ReadonlySet<string>): Promise<void> {
    for (const uuid of this.#known.keys()) if (!there.has(uuid)) this.#known.delete(uuid);
    if (this.#loaded.rows > 2 * this.#known.size + SPENT_ROWS) await this.#locked(() => this.#rewrite());
  }

  async #rewrite(): Promise<void> {
    const { fs } = this.#ports;
    const temporary = join(dirname(this.#path), "~runs.jsonl.tmp");
    const from = fs.open(this.#path, "read");
    try {
      const to = fs.open(temporary, "replace");
      try {
        const slices = new TimeSlices();
        for (const known of this.#known.values()) {
          await slices.pause();
          const record = this.#recordAt(from, known);
          if (!known.at || !record) continue;
          const lines = entryLines({ ...known, ...known.at }, record.toString());
          writeAll(fs, to, Buffer.from(`${lines.join("\n")}\n`));
        }
      } finally {
        fs.close(to);
      }
      fs.rename(temporary, this.#path);
    } catch (error) {
      throw ioError(error, "rewrite the index of runs", this.#path);
    } finally {
      fs.close(from);
    }
  }

  async #locked(write: () => void | Promise<void>): Promise<void> {
    await this.#unlessDamaged(async () => {
      requireNoLink(this.#ports.dataDir, ["index"], this.#ports.fs);
      makeFolder(dirname(this.#path), this.#ports.fs);
      const lock = FileLock.tryAcquire(`${this.#path}.lock`);
      try {
        if (lock) await write();
      } finally {
        lock?.release({ remove: true });
      }
    });
  }

  /** Ignores failures to read or write the index: it is only derived. */
  async #unlessDamaged(use: () => Promise<void>): Promise<void> {
    try {
      await use();
    } catch (error) {
      if (!(error instanceof SyscallError)) throw error;
    }
  }

  /** Opens the index; undefined when it is missing or unreadable, and then the records are read. */
  #open(): number | undefined {
    try {
      return this.#ports.fs.open(this.#path, "read");
    } catch (error) {
      if (errno(error) !== undefined) return undefined;
      throw error;
    }
  }

  #recordOf(fd: number | undefined, uuid: string): ProcInfo | undefined {
    const known = this.#known.get(uuid);
    const record = fd !== undefined && known ? this.#recordAt(fd, known) : undefined;
    if (known === undefined || record === undefined) return undefined;
    const text = record.toString();
    // The checksum says that it is the text that was validated. Validation takes most of the time of a listing.
    if (known.isValidated) return parsedJson(text);
    const info = parseDocument(ProcInfo, text, `the index's record of run ${uuid}`);
    if (JSON.stringify(info) === text) known.isValidated = true;
    return info;
  }

  /** Reads a record from the index; undefined when it has changed there. */
  #recordAt(fd: number, known: KnownRun): Buffer | undefined {
    if (known.at === null) return undefined;
    const record = Buffer.alloc(known.at.bytes);
    const got = this.#ports.fs.read(fd, record, known.at.offset);
    return got === known.at.bytes && sumOf(known, record, this.#ports.seal) === known.at.sum
      ? record
      : undefined;
  }
}

function parsedJson(text: string): ProcInfo {
  return JSON.parse(text);
}

function nothing(): void {}

function sameFile(a: FileFacts, b: FileFacts): boolean {
  return a.ino === b.ino && a.size === b.size && a.mtimeMs === b.mtimeMs;
}

function noRecord(uuid: string): SyscallError {
  return new SyscallError(
    "NOT_FOUND",
    `Run ${uuid} has a folder but no ${INFO}: it ended before its first record. \`rnix gc\` removes the folder.`,
  );
}
