/** The index that makes listing runs fast. */

import type { Database } from "bun:sqlite";
import nodeFs from "node:fs";
import { uptime } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { errnoOf, expected } from "../../lib/error-detail.ts";
import { CODES, SyscallError } from "../../plugin/index.ts";
import type { FsPort } from "../files/fs-port.ts";
import { IndexFile, makeTables } from "../files/index-file.ts";
import { TimeSlices } from "../files/time-slice.ts";
import type { ChangedRuns } from "./changed-runs.ts";
import type { RecordKey } from "./record-key.ts";
import { INFO, isClosed } from "./run-files.ts";
import { type Listing, listingOf, type RunLists, type RunPage } from "./run-lists.ts";
import type { RunRecords } from "./run-records.ts";
import { isSameRecord, type RecordFacts, type RunRow, rowOf } from "./run-row.ts";
import { type FolderState, type KnownRun, type PageQuery, RUN_TABLES, RunTable } from "./run-table.ts";
import { ProcInfo } from "./schema.ts";

/** Of the tables of the index, and of the way texts are made of steps and split into terms. */
const VERSION = 3;

/** Records read in parallel, and rows written in one transaction. */
const BATCH = 100;
/** Records read from the index in one call. */
const RECORDS = 50;
/** A folder that was changed this recently may change again without another time. */
const SETTLED_MS = 50;
/** No time of a folder: its names are read again. */
const UNSETTLED = -1;
/** How often a page is read again when its records have changed meanwhile. */
const ATTEMPTS = 3;

const NO_RUNS: RunPage = { rows: [], total: 0, open: [], damaged: [] };

interface RunIndexParts {
  records: RunRecords;
  fs: FsPort;
  file: IndexFile;
  changed: ChangedRuns;
  /** The database stays open until its owner closes it. */
  keepOpen?: boolean;
}

/**
 * An index of the runs in a data folder, so that a listing does not read every record. It is derived: a row is valid
 * while the run's proc-info.json has the same size, time and inode. Several processes may share the file.
 */
export class RunIndex implements RunLists {
  readonly #parts: RunIndexParts;
  #using = 0;
  #table: { db: Database; table: RunTable } | undefined;
  readonly #syncs = new Coalesced<void>();

  constructor(parts: RunIndexParts) {
    this.#parts = parts;
  }

  async list(): Promise<Listing> {
    return listingOf(await this.page({}));
  }

  page(query: PageQuery): Promise<RunPage> {
    return this.#during(() => this.#page(query));
  }

  infos(rows: readonly Pick<RunRow, "uuid">[]): Promise<ProcInfo[]> {
    return this.#during(async () => {
      const found: ProcInfo[] = [];
      const slices = new TimeSlices();
      for await (const { uuid, text } of this.recordTexts(rows)) {
        await slices.pause();
        const info = text === undefined ? await this.#parts.records.info(uuid) : parsedJson(text);
        if (info) found.push(info);
      }
      return found;
    });
  }

  /** The records as they were validated, as JSON; undefined for one that has to be read from its own file. */
  async *recordTexts(
    rows: readonly Pick<RunRow, "uuid">[],
  ): AsyncGenerator<{ uuid: string; text: string | undefined }> {
    const slices = new TimeSlices();
    for (let at = 0; at < rows.length; at += RECORDS) {
      await slices.pause();
      const wanted = rows.slice(at, at + RECORDS).map(({ uuid }) => ({ uuid, facts: this.#factsOf(uuid) }));
      yield* this.#use((table) =>
        wanted.map(({ uuid, facts }) => ({ uuid, text: facts ? table.record(uuid, facts) : undefined })),
      );
    }
  }

  /** Closes the index after each listing, unless its owner keeps it open, as a Worker does. */
  async #during<T>(use: () => Promise<T>): Promise<T> {
    const { file, keepOpen } = this.#parts;
    this.#using++;
    try {
      return await use();
    } finally {
      if (--this.#using === 0 && !keepOpen && !file.inMemory) file.close();
    }
  }

  async #page(query: PageQuery): Promise<RunPage> {
    // A listing where nothing was recorded makes no file.
    if (this.#parts.fs.stat(this.#stepsDir) === null || this.#parts.records.linked()) return NO_RUNS;
    for (let attempt = 1; ; attempt++) {
      await this.#syncs.run(() => this.#sync());
      const found = this.#use((table) => (table.folder ? this.#pageOf(table, query) : undefined));
      if (found && (found.changed.length === 0 || attempt >= ATTEMPTS)) return found.page;
      if (attempt > ATTEMPTS)
        throw new SyscallError("UNAVAILABLE", "The index of runs is deleted again and again.");
      if (found) await this.#readAgain(found.changed);
    }
  }

  #pageOf(table: RunTable, query: PageQuery): { page: RunPage; changed: string[] } {
    const { runs, total } = table.page(query);
    const open = table.open();
    const isChanged = ({ row, facts }: KnownRun): boolean => {
      const now = this.#factsOf(row.uuid);
      return now === null || !isSameRecord(now, facts);
    };
    const page = {
      rows: runs.map(({ row }) => row),
      total,
      open: open.map(({ row }) => row),
      damaged: table
        .unread()
        .map(({ uuid, code, message }) => ({ uuid, error: new SyscallError(codeOf(code), message) })),
    };
    // The row of a closed run is open if its record changed while it was read.
    const checked = [...runs, ...open.filter(({ row }) => isClosed(row))];
    return { page, changed: checked.filter(isChanged).map(({ row }) => row.uuid) };
  }

  /** Brings the rows of all runs that may have changed up to date. */
  async #sync(): Promise<void> {
    const { records, changed } = this.#parts;
    const begun = this.#begun();
    const listedMs = Date.now();
    const marks = await changed.list();
    const { first, before } = this.#use((table) => ({ first: table, before: table.folder }));
    const isNew = !before || marks === null || before.boot !== begun.boot;
    const suspects = new Set<string>();
    if (isNew || before.stepsMs !== begun.stepsMs || begun.stepsMs === UNSETTLED) {
      const names = new Set(await records.uuids());
      for (const uuid of this.#use((table) => table.uuids()))
        if (isNew || !names.delete(uuid)) suspects.add(uuid);
      for (const uuid of names) suspects.add(uuid);
    }
    this.#use((table) => {
      for (const { row } of table.open()) suspects.add(row.uuid);
      for (const { uuid } of table.unread()) suspects.add(uuid);
    });
    for (const uuid of marks?.keys() ?? []) suspects.add(uuid);
    await this.#readAgain([...suspects]);
    const isDone = this.#change((table) => {
      // Another database has not all rows: it stays without a state, so the next page reads all records.
      if (table !== first) return false;
      if (!Bun.deepEquals(before, begun)) table.folder = begun;
      return true;
    });
    if (isDone && marks) changed.settle(marks, listedMs);
  }

  /** Reads those of the runs whose records have changed, in time slices. */
  async #readAgain(uuids: readonly string[]): Promise<void> {
    const known = this.#use((table) => table.facts(uuids));
    const slices = new TimeSlices();
    const changed: { uuid: string; facts: RecordFacts | null }[] = [];
    for (const uuid of uuids) {
      await slices.pause();
      // The state is taken before the read: a record replaced in between is read again next time.
      const facts = this.#factsOf(uuid);
      const before = known.get(uuid);
      if (!before || !facts || !isSameRecord(before, facts)) changed.push({ uuid, facts });
    }
    for (let at = 0; at < changed.length; at += BATCH) {
      const batch = changed.slice(at, at + BATCH);
      const read = await Promise.all(
        batch.map(async (one) => ({ ...one, found: await this.#read(one.uuid) })),
      );
      this.#change((table) => {
        for (const { uuid, facts, found } of read) {
          if (found instanceof SyscallError) table.putUnread(uuid, found.code, found.message);
          else if (found) table.put(found, rowOf(found), this.#isCurrent(uuid, facts) ? facts : null);
          else table.remove(uuid);
        }
      });
    }
  }

  /** Under the write lock, because another process may have written the row of a newer record meanwhile. */
  #isCurrent(uuid: string, facts: RecordFacts | null): boolean {
    const now = this.#factsOf(uuid);
    return facts !== null && now !== null && isSameRecord(now, facts);
  }

  async #read(uuid: string): Promise<ProcInfo | SyscallError | null> {
    const { records, fs } = this.#parts;
    const info = await records.info(uuid).catch(expected);
    if (info !== null) return info;
    // The folder may have been removed since the names were read.
    return fs.stat(records.dir(uuid)) === null ? null : noRecord(uuid);
  }

  #factsOf(uuid: string): RecordFacts | null {
    const found = this.#parts.fs.stat(`${this.#parts.records.dir(uuid)}/${INFO}`);
    return found && { size: found.size, mtimeMs: found.mtimeMs, ino: found.ino };
  }

  get #stepsDir(): string {
    return join(this.#parts.records.dataDir, "steps");
  }

  #begun(): FolderState {
    // Before the folder is looked at: this process may have to wait in between.
    const now = Date.now();
    const stepsMs = this.#parts.fs.stat(this.#stepsDir)?.mtimeMs ?? 0;
    return { stepsMs: now - stepsMs > SETTLED_MS ? stepsMs : UNSETTLED, boot: bootId() };
  }

  #use<T>(use: (table: RunTable) => T): T {
    return this.#parts.file.use((db) => use(this.#of(db)));
  }

  #change<T>(change: (table: RunTable) => T): T {
    return this.#parts.file.use((db) => {
      const table = this.#of(db);
      return db.transaction(() => change(table)).immediate();
    });
  }

  #of(db: Database): RunTable {
    if (this.#table?.db !== db) {
      makeTables(db, "run", RUN_TABLES);
      this.#table = { db, table: new RunTable(db) };
    }
    return this.#table.table;
  }
}

let form: string | undefined;

/** The file of a data folder's index. Records of another form have another file. */
export function indexFileOf(key: RecordKey, dataDir: string): IndexFile {
  form ??= JSON.stringify([VERSION, z.toJSONSchema(ProcInfo)]);
  // The key is part of the version, because it decides which records count as the user's own.
  const version = Bun.hash(`${form} ${key.secretOf("index")}`).toString(36);
  return new IndexFile({ folder: key.indexFolder, dataDir, version });
}

function codeOf(text: string): SyscallError["code"] {
  return CODES.find((one) => one === text) ?? "INVALID";
}

function parsedJson(text: string): ProcInfo {
  return JSON.parse(text);
}

function noRecord(uuid: string): SyscallError {
  const message = `Run ${uuid} has a folder but no ${INFO}: it ended before its first record. \`rnix gc\` removes the folder.`;
  return new SyscallError("NOT_FOUND", message);
}

let boot: string | undefined;

/** Another one after a power loss, which may take a record's entry in the journal of changed runs. */
function bootId(): string {
  boot ??= readBootId() ?? `${Math.round((Date.now() - uptime() * 1000) / 600_000)}`;
  return boot;
}

function readBootId(): string | undefined {
  try {
    return nodeFs.readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return undefined;
  }
}

/** Runs one work at a time. A caller that comes during one waits for the next: that one may have missed its change. */
class Coalesced<T> {
  #now: Promise<T> | undefined;
  #next: Promise<T> | undefined;

  run(work: () => Promise<T>): Promise<T> {
    if (!this.#now) return this.#begin(work);
    this.#next ??= this.#now.then(nothing, nothing).then(() => {
      this.#next = undefined;
      return this.#begin(work);
    });
    return this.#next;
  }

  #begin(work: () => Promise<T>): Promise<T> {
    this.#now = work().finally(() => {
      this.#now = undefined;
    });
    return this.#now;
  }
}

function nothing(): void {}
