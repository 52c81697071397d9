/** The index that makes listing runs fast. */

import type { Database } from "bun:sqlite";
import { join } from "node:path";
import { z } from "zod";
import { CODES, SyscallError } from "../../plugin/index.ts";
import type { FsPort } from "../files/fs-port.ts";
import { IndexFile } from "../files/index-file.ts";
import { TimeSlices } from "../files/time-slice.ts";
import { bootId } from "./boot-id.ts";
import { ChangedRuns } from "./changed-runs.ts";
import { isClosed } from "./closed-record.ts";
import { Coalesced } from "./coalesced.ts";
import type { RecordSeal } from "./record-seal.ts";
import { INFO } from "./run-files.ts";
import type { DamagedRun, Listing, RunLists, RunPage } from "./run-lists.ts";
import type { RunRecords } from "./run-records.ts";
import { isSameRecord, type RecordFacts, type RunRow, rowOf } from "./run-row.ts";
import {
  type KnownRun,
  type PageQuery,
  RUN_TABLE_SCHEMA,
  RUN_TABLE_VERSION,
  RunTable,
  type TableState,
} from "./run-table.ts";
import { ProcInfo } from "./schema.ts";

/** Records read in parallel. */
const READERS = 32;
/** Rows read or written in one call. */
const BATCH = 100;
/** Records read from the index in one call. */
const RECORDS = 50;
/** A folder that was changed this recently may change again without another time. */
const SETTLED_MS = 50;
/** No time of a folder: its names are read again. */
const UNSETTLED = -1;
/** How often a page is read again when its records have changed meanwhile. */
const ATTEMPTS = 3;

interface RunIndexPorts {
  fs: FsPort;
  /** Authenticates the entries of this index. An entry of another writer is ignored. */
  seal: RecordSeal;
  /** The database stays open until `close`. */
  keepOpen?: boolean;
}

/**
 * An index of the runs in a data folder, so that a listing does not read every record. It is derived: a row is valid
 * while the run's proc-info.json has the same size, time and inode. Several processes may share the file.
 */
export class RunIndex implements RunLists {
  readonly #records: RunRecords;
  readonly #ports: RunIndexPorts;
  readonly #file: IndexFile;
  readonly #journal: ChangedRuns;
  #using = 0;
  #table: { db: Database; table: RunTable } | undefined;
  readonly #lists = new Coalesced<Listing>();
  readonly #syncs = new Coalesced<void>();

  constructor(records: RunRecords, ports: RunIndexPorts) {
    const { dataDir } = records;
    const { fs, seal } = ports;
    this.#records = records;
    this.#ports = ports;
    this.#file = new IndexFile({ dataDir, name: "runs", version: formOf(), schema: RUN_TABLE_SCHEMA, seal });
    this.#journal = new ChangedRuns(dataDir, fs);
  }

  list(): Promise<Listing> {
    return this.#during(() => this.#lists.run(() => this.#list()));
  }

  page(query: PageQuery): Promise<RunPage> {
    return this.#during(() => this.#readPage(query));
  }

  infos(rows: readonly Pick<RunRow, "uuid">[]): Promise<ProcInfo[]> {
    return this.#during(() => this.#infos(rows));
  }

  async #readPage(query: PageQuery): Promise<RunPage> {
    for (let attempt = 1; ; attempt++) {
      await this.#syncs.run(() => this.#sync());
      const found = this.#use((table) => (table.state ? this.#page(table, query) : undefined));
      const { changed = [], ...page } = found ?? {};
      if (found && (changed.length === 0 || attempt >= ATTEMPTS)) return { ...found, ...page };
      if (attempt > ATTEMPTS)
        throw new SyscallError("UNAVAILABLE", "The index of runs is deleted again and again.");
      await this.#readAgain(changed);
    }
  }

  async #infos(rows: readonly Pick<RunRow, "uuid">[]): Promise<ProcInfo[]> {
    const found: ProcInfo[] = [];
    const slices = new TimeSlices();
    for await (const { uuid, text } of this.recordTexts(rows)) {
      await slices.pause();
      const info = text === undefined ? await this.#records.info(uuid) : parsedJson(text);
      if (info) found.push(info);
    }
    return found;
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

  /** No file stays open between listings, but in a Worker, which closes them. */
  async #during<T>(use: () => Promise<T>): Promise<T> {
    this.#using++;
    try {
      return await use();
    } finally {
      if (--this.#using === 0 && !this.#ports.keepOpen && !this.#file.inMemory) this.close();
    }
  }

  close(): void {
    this.#table = undefined;
    this.#file.close();
  }

  async #list(): Promise<Listing> {
    const begun = this.#begun();
    const first = this.#use((table) => table);
    const uuids = await this.#records.uuids();
    const known = await this.#allKnown();
    const { changed, facts } = await this.#compare(uuids, known);
    const damaged: DamagedRun[] = [];
    const rows = new Map([...known].map(([uuid, { row }]) => [uuid, row]));
    for (let i = 0; i < changed.length; i += BATCH)
      for (const row of await this.#readAll(changed.slice(i, i + BATCH), facts, damaged))
        rows.set(row.uuid, row);
    const there = new Set(uuids);
    this.#change((table) => {
      // Another process may have added the row of a newer run.
      for (const uuid of [...table.uuids(), ...table.unread().map((one) => one.uuid)])
        if (!there.has(uuid) && this.#ports.fs.stat(this.#records.dir(uuid)) === null) table.remove(uuid);
      // Another database has not all rows: it stays without a state, so the next page reads all records.
      if (table === first) table.state = this.#trimmed(begun);
    });
    damaged.sort((a, b) => (a.uuid < b.uuid ? -1 : 1));
    return { rows: uuids.flatMap((uuid) => rows.get(uuid) ?? []), damaged };
  }

  /** The rows of the table. */
  async #allKnown(): Promise<Map<string, KnownRun>> {
    const known = new Map<string, KnownRun>();
    const slices = new TimeSlices();
    for (let after = 0; ; ) {
      await slices.pause();
      const part = this.#use((table) => table.part(after, BATCH));
      for (const run of part.runs) known.set(run.row.uuid, run);
      if (part.last === null) break;
      after = part.last;
    }
    this.#use((table) => table.takeDoubtful());
    return known;
  }

  /** Finds the runs whose record changed, in time slices, so that the thread is not blocked. */
  async #compare(
    uuids: Iterable<string>,
    known: Pick<Map<string, KnownRun>, "get" | "delete">,
  ): Promise<{ changed: string[]; facts: Map<string, RecordFacts> }> {
    const changed: string[] = [];
    const all = new Map<string, RecordFacts>();
    const slices = new TimeSlices();
    for (const uuid of uuids) {
      await slices.pause();
      // The state is taken before the read: a record replaced in between is read again next time.
      const facts = this.#factsOf(uuid);
      const run = known.get(uuid);
      if (run && facts && isSameRecord(run.facts, facts)) continue;
      known.delete(uuid);
      changed.push(uuid);
      if (facts) all.set(uuid, facts);
    }
    return { changed, facts: all };
  }

  /** Brings the rows of all runs that may have changed up to date. */
  async #sync(): Promise<void> {
    const begun = this.#begun();
    const { first, before } = this.#use((table) => ({ first: table, before: table.state }));
    const { uuids: changed, position } = this.#journal.since(before?.journal ?? null);
    if (!before || changed === null || before.boot !== begun.boot) {
      await this.list();
      return;
    }
    const suspects = this.#use((table) => {
      const uuids = [...table.open().map(({ row }) => row.uuid), ...table.unread().map(({ uuid }) => uuid)];
      return new Set([...uuids, ...changed, ...table.takeDoubtful()]);
    });
    if (before.stepsMs !== begun.stepsMs || begun.stepsMs === UNSETTLED) await this.#addNames(suspects);
    await this.#readAgain(suspects);
    const after = this.#trimmed({ ...begun, journal: position });
    if (!Bun.deepEquals(before, after)) {
      this.#change((table) => {
        if (table === first) table.state = after;
      });
    }
  }

  /** Adds new runs, and removed ones. */
  async #addNames(suspects: Set<string>): Promise<void> {
    const names = new Set(await this.#records.uuids());
    for (const uuid of this.#use((table) => table.uuids())) if (!names.delete(uuid)) suspects.add(uuid);
    for (const uuid of names) suspects.add(uuid);
  }

  /** Reads those of the runs whose records have changed. */
  async #readAgain(uuids: Iterable<string>): Promise<void> {
    const known = {
      get: (uuid: string) => this.#use((table) => table.known(uuid)),
      delete: () => true,
    };
    const { changed, facts } = await this.#compare(uuids, known);
    for (let i = 0; i < changed.length; i += BATCH)
      await this.#readAll(changed.slice(i, i + BATCH), facts, []);
  }

  #page(table: RunTable, query: PageQuery): RunPage & { changed: string[] } {
    const { runs, total } = table.page(query);
    const open = table.open();
    const unread = table.unread();
    const isChanged = ({ row, facts }: KnownRun): boolean => {
      const now = this.#factsOf(row.uuid);
      return now === null || !isSameRecord(now, facts);
    };
    return {
      rows: runs.map(({ row }) => row),
      total,
      open: open.map(({ row }) => row),
      damaged: unread.map(({ uuid, code, message }) => ({ uuid, error: errorOf(code, message) })),
      // The row of a closed run is open if its record changed while it was read.
      changed: [
        ...[...runs, ...open.filter(({ row }) => isClosed(row))].filter(isChanged).map(({ row }) => row.uuid),
        ...table.takeDoubtful(),
      ],
    };
  }

  /** Reads records in parallel and writes their rows. Returns the rows. */
  async #readAll(
    uuids: readonly string[],
    facts: ReadonlyMap<string, RecordFacts>,
    damaged: DamagedRun[],
  ): Promise<RunRow[]> {
    const read = new Map<string, ProcInfo | SyscallError | null>();
    const left = uuids.values();
    const reader = async (): Promise<void> => {
      for (const uuid of left) read.set(uuid, await this.#read(uuid));
    };
    await Promise.all(Array.from({ length: READERS }, reader));
    const rows: RunRow[] = [];
    const writes: ((table: RunTable) => void)[] = [];
    for (const uuid of uuids) {
      const found = read.get(uuid) ?? null;
      const of = facts.get(uuid);
      if (found instanceof SyscallError) {
        damaged.push({ uuid, error: found });
        writes.push((table) => table.putUnread(uuid, found.code, found.message));
      } else if (found) {
        const row = rowOf(found);
        rows.push(row);
        writes.push((table) => table.put(found, row, this.#isCurrent(uuid, of) ? of : null));
      } else writes.push((table) => table.remove(uuid));
    }
    this.#change((table) => {
      for (const write of writes) write(table);
    });
    return rows;
  }

  /** Under the write lock, because another process may have written the row of a newer record meanwhile. */
  #isCurrent(uuid: string, facts: RecordFacts | undefined): facts is RecordFacts {
    const now = this.#factsOf(uuid);
    return facts !== undefined && now !== null && isSameRecord(now, facts);
  }

  async #read(uuid: string): Promise<ProcInfo | SyscallError | null> {
    try {
      const info = await this.#records.info(uuid);
      if (info !== null) return info;
      // The folder may have been removed since the names were read.
      return this.#ports.fs.stat(this.#records.dir(uuid)) === null ? null : noRecord(uuid);
    } catch (error) {
      if (error instanceof SyscallError) return error;
      throw error;
    }
  }

  #factsOf(uuid: string): RecordFacts | null {
    const found = this.#ports.fs.stat(`${this.#records.dir(uuid)}/${INFO}`);
    return found && { size: found.size, mtimeMs: found.mtimeMs, ino: found.ino };
  }

  /** The state of the folder before it is read. */
  #begun(): TableState {
    // Before the folder is looked at: this process may have to wait in between.
    const now = Date.now();
    const stepsMs = this.#ports.fs.stat(join(this.#records.dataDir, "steps"))?.mtimeMs ?? 0;
    const isSettled = now - stepsMs > SETTLED_MS;
    return {
      journal: this.#journal.since(null).position,
      stepsMs: isSettled ? stepsMs : UNSETTLED,
      boot: bootId(),
    };
  }

  #trimmed(state: TableState): TableState {
    return { ...state, journal: this.#journal.trim(state.journal) };
  }

  #use<T>(use: (table: RunTable) => T): T {
    return this.#file.use((db) => use(this.#of(db)));
  }

  #change<T>(change: (table: RunTable) => T): T {
    return this.#file.use((db) => db.transaction(() => change(this.#of(db))).immediate());
  }

  #of(db: Database): RunTable {
    if (this.#table?.db !== db) this.#table = { db, table: new RunTable(db, this.#ports.seal) };
    return this.#table.table;
  }
}

let form: string | undefined;

/** Names what a row and a record are: records of another form are read again. */
function formOf(): string {
  form ??= Bun.hash(JSON.stringify([RUN_TABLE_VERSION, z.toJSONSchema(ProcInfo)])).toString(36);
  return form;
}

function errorOf(code: string, message: string): SyscallError {
  const known = CODES.find((one) => one === code) ?? "INVALID";
  return new SyscallError(known, message);
}

function parsedJson(text: string): ProcInfo {
  return JSON.parse(text);
}

function noRecord(uuid: string): SyscallError {
  return new SyscallError(
    "NOT_FOUND",
    `Run ${uuid} has a folder but no ${INFO}: it ended before its first record. \`rnix gc\` removes the folder.`,
  );
}
