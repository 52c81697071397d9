import { dirname, join } from "node:path";
import { type Data, SyscallError } from "../../plugin/index.ts";
import { AppendLog } from "../files/append-log.ts";
import { syncDirectory } from "../files/document.ts";
import { DurableDocument } from "../files/durable-document.ts";
import { type FsPort, ioError, realFs } from "../files/fs-port.ts";
import { SCHEMA_VERSION } from "../files/schema-version.ts";
import { type BlobRef, BlobStore, readBlob } from "./blob-store.ts";
import { INBOX, InboxLog, type InboxRest } from "./inbox-log.ts";
import type { RecordSeal } from "./record-seal.ts";
import type { JournalEntry, ProcessMeta, ProcInfo, StepRecord, SyscallEventWire } from "./schema.ts";

export const STEPS = "steps.jsonl";
export const JOURNAL = "step.journal";
export const EVENTS = "events.jsonl";
export const INFO = "proc-info.json";
export const META = "process-meta.json";
export const SPILL = "spill";

export interface RunLimits {
  /** Lines of events.jsonl; what comes after is counted and dropped. */
  events_per_run: number;
  /** Bytes of results beside the records; what comes after is shown in part and not kept. */
  results_per_run?: number;
}

const DEFAULT_RUN_LIMITS: RunLimits = { events_per_run: 100_000 };

/** Lines kept in memory before they are written: bounded, and one write for many. */
const EVENT_BATCH = 256;
/**
 * A journal that was made durable is emptied at the run's end, and when it has grown to this. Readers ignore
 * what is recorded, and on most file systems cutting a file costs more than all else a step writes.
 */
const JOURNAL_BYTES = 64 * 1024;
/** So many wait for a disk that takes none; what comes then is counted and dropped. */
const MAX_PENDING_EVENTS = 16 * EVENT_BATCH;

/**
 * Writes the files of one run (design §7). What a method has returned for survives a kill of the process;
 * `sync` makes everything so far survive a power loss. Any method throws EXHAUSTED or UNAVAILABLE when the
 * disk does not take it: the caller stops the run before the effect that should have been recorded first.
 * Between steps no file is open.
 */
export class RunWriter {
  readonly uuid: string;
  /** `<data>/steps/<uuid>`, absolute. */
  readonly dir: string;
  /** Why no event of it is kept: what stands in the place of events.jsonl can't be read. */
  readonly untraced: SyscallError | undefined;
  readonly #fs: FsPort;
  readonly #seal: RecordSeal;
  readonly #there: boolean;
  #stepLog: AppendLog | undefined;
  #journalLog: AppendLog | undefined;
  readonly #eventLog: AppendLog;
  readonly #info: DurableDocument;
  readonly #meta: DurableDocument;
  #keptResults: BlobStore | undefined;
  #inbox: InboxLog | undefined;
  readonly #limits: RunLimits;
  #events: string[] = [];
  #eventsTaken: number;
  #eventsDropped = 0;
  #lastEvent: SyscallEventWire | undefined;
  /** Counts journal entries, to see whether one was added while the disk worked. */
  #entries = 0;
  /** The journal holds entries of a step that is not recorded yet. */
  #stepOpen: boolean;
  /** The journal may be on the disk for good: it is emptied only when the step's record is too. */
  #journalDurable: boolean;
  #emptying: Promise<void> = Promise.resolve();
  #failure: SyscallError | undefined;
  /** Folders whose entries are not durable yet: the run's own, and those that lead to it. */
  #namesDirty: string[];
  #namesSyncing: Promise<unknown> = Promise.resolve();

  /**
   * The folder is there. `above`: the folders that lead to it and may not be durable. Of one that is gone on with:
   * `taken`: events that events.jsonl holds already, or why it can't be read: then all that come are counted and
   * dropped; `journalled`: the journal holds entries; `inbox`: what
   * inbox.jsonl holds.
   */
  constructor(o: {
    uuid: string;
    dir: string;
    /** Of the run: what it records is authenticated with it. */
    seal: RecordSeal;
    fs?: FsPort;
    limits?: RunLimits;
    above?: readonly string[];
    taken?: number | SyscallError;
    journalled?: boolean;
    inbox?: InboxRest;
  }) {
    this.uuid = o.uuid;
    this.dir = o.dir;
    this.#fs = o.fs ?? realFs;
    this.#seal = o.seal;
    this.#limits = o.limits ?? DEFAULT_RUN_LIMITS;
    this.untraced = typeof o.taken === "object" ? o.taken : undefined;
    this.#eventsTaken = typeof o.taken === "object" ? Number.POSITIVE_INFINITY : (o.taken ?? 0);
    if (o.inbox) this.#inbox = this.#newInbox(o.inbox);
    this.#stepOpen = o.journalled ?? false;
    this.#journalDurable = o.journalled ?? false;
    const fs = this.#fs;
    const { dir } = o;
    this.#namesDirty = [dir, ...(o.above ?? [])];
    const there = o.taken !== undefined;
    this.#there = there;
    this.#info = new DurableDocument(join(dir, INFO), { fs, there });
    this.#meta = new DurableDocument(join(dir, META), { fs, there });
    // What the one before has left is made durable with the first sync.
    if (there) void [this.#steps, this.#journal];
    this.#eventLog = new AppendLog(join(o.dir, EVENTS), `${EVENTS} of run ${o.uuid}`, { fs });
  }

  /** Where programs write what they print beyond what is kept in memory, absolute. Made on first use. */
  get spillDir(): string {
    return join(this.dir, SPILL);
  }

  /** What arrives for the run. Made on first use: most runs are sent nothing. */
  get inbox(): InboxLog {
    this.#inbox ??= this.#newInbox();
    return this.#inbox;
  }

  /** Replaces the process record. Not durable by itself: `sync` and `close` make it so. */
  info(info: ProcInfo): void {
    this.#info.replace(sealedInfo(info, dirname(dirname(this.dir)), this.#seal));
    this.#nameDirty();
  }

  /** Replaces the prompt's head and the tools: at spawn, and when tools were added. Durable as `info` is. */
  meta(meta: ProcessMeta): void {
    this.#meta.replace(this.#seal.seal(META, JSON.stringify(meta)));
    this.#nameDirty();
  }

  /** Appends to the open step: an answer, a call's start, a call's end. */
  journal(entry: JournalEntry): void {
    this.#throwFailure();
    this.#journal.append(this.#seal.seal(JOURNAL, versioned(entry)));
    this.#entries++;
    this.#stepOpen = true;
  }

  /**
   * Makes everything recorded so far durable: before the first call of a step that is not read-only, and
   * at the end of a run. A failure is final for this writer.
   */
  async sync(): Promise<void> {
    this.#throwFailure();
    if (this.#stepOpen) this.#journalDurable = true;
    const [disk, events] = await Promise.allSettled([
      this.#syncRecords(),
      // Events need not be durable: they are written while the disk works.
      Promise.try(() => this.flush()),
    ]);
    if (disk.status === "rejected") {
      // What a failed sync has lost is not known, and the next one would not tell.
      this.#failure ??= ioError(disk.reason, `make run ${this.uuid} durable`, this.dir);
      throw this.#failure;
    }
    if (events.status === "rejected") throw events.reason;
  }

  /** Records a finished step. From then on its journal is void, and emptied now or later. */
  step(record: StepRecord): void {
    this.#throwFailure();
    // It may be the one that makes the file.
    if (this.#steps.size === 0) this.#nameDirty();
    this.#steps.append(this.#sealedStep(record));
    this.#stepOpen = false;
    if (!this.#journalDurable) this.#journal.empty();
    else if (this.#journal.size >= JOURNAL_BYTES) this.#emptyWhenRecorded();
    this.#journal.close();
    this.#inbox?.acknowledge(record);
    this.flush();
  }

  /** Of a fork: records of the steps that it begins with. Called before a step of its own is recorded. */
  inherit(records: readonly StepRecord[]): void {
    this.#nameDirty();
    this.#steps.append(...records.map((record) => this.#sealedStep(record)));
  }

  #sealedStep(record: StepRecord): string {
    return this.#seal.seal(STEPS, versioned(record));
  }

  /** Keeps a syscall event; written in batches, at the latest with the step. */
  event(event: SyscallEventWire): void {
    if (this.#eventsTaken >= this.#limits.events_per_run || this.#events.length >= MAX_PENDING_EVENTS) {
      this.#eventsDropped++;
      this.#lastEvent = event;
      return;
    }
    this.#eventsTaken++;
    this.#events.push(versioned(event));
    if (this.#events.length >= EVENT_BATCH) this.flush();
  }

  /** Writes the events kept in memory. After a failure they are kept, and the next call tries again. */
  flush(): void {
    while (this.#events.length > 0) {
      this.#eventLog.append(...this.#events.slice(0, EVENT_BATCH));
      this.#events = this.#events.slice(EVENT_BATCH);
    }
  }

  /** Keeps data beside the run, for a record to name it: see KeptResults. */
  keep(name: string, data: Data): Promise<BlobRef & { path: string }> {
    return this.#results.keep(name, data);
  }

  /** Reads what was kept: whole, or INVALID. */
  readKept(ref: BlobRef): Promise<Uint8Array> {
    return readBlob(this.#fs, this.dir, ref);
  }

  /** The end of the run: everything is durable, no file is open. Safe to call again. */
  async close(): Promise<void> {
    try {
      this.#noteDropped();
      await this.sync();
      await this.#emptying;
      this.#throwFailure();
      if (!this.#stepOpen && this.#journalDurable) this.#emptyJournal();
      await this.#inbox?.close();
    } finally {
      this.#journalLog?.close();
    }
  }

  /**
   * The step's effects are on disk for good in the journal, its record is not yet. Emptied now, a power
   * loss could take the record and leave no trace of the effects. Until then a reader sees a journal whose
   * step is recorded, and ignores it.
   */
  #emptyWhenRecorded(): void {
    const entries = this.#entries;
    this.#emptying = this.#steps.sync().then(
      () => this.#emptyUnlessUsed(entries),
      (error: SyscallError) => {
        this.#failure ??= error; // Thrown by the next call.
      },
    );
  }

  /** The next step may have begun: then the journal holds both, and goes with that step's record. */
  #emptyUnlessUsed(entries: number): void {
    if (this.#entries !== entries) return;
    try {
      this.#emptyJournal();
    } catch (error) {
      this.#failure ??= ioError(error, `empty the journal of run ${this.uuid}`, this.#journal.path);
    }
  }

  #emptyJournal(): void {
    this.#journal.empty();
    this.#journal.close();
    this.#journalDurable = false;
  }

  // Thousands may wait for their first answer: what that will need is made then.

  get #steps(): AppendLog {
    this.#stepLog ??= this.#log(STEPS, {});
    return this.#stepLog;
  }

  get #journal(): AppendLog {
    this.#journalLog ??= this.#log(JOURNAL, { keepOpen: true });
    return this.#journalLog;
  }

  get #results(): BlobStore {
    const { uuid, dir } = this;
    this.#keptResults ??= new BlobStore({ uuid, dir, fs: this.#fs, maxBytes: this.#limits.results_per_run });
    return this.#keptResults;
  }

  #log(file: string, o: { keepOpen?: boolean }): AppendLog {
    const path = join(this.dir, file);
    const left = this.#there && this.#fs.stat(path) !== null;
    return new AppendLog(path, `${file} of run ${this.uuid}`, { ...o, fs: this.#fs, left });
  }

  #nameDirty(): void {
    if (!this.#namesDirty.includes(this.dir)) this.#namesDirty.push(this.dir);
  }

  #newInbox(rest?: InboxRest): InboxLog {
    const { uuid, dir } = this;
    const seal = (line: string): string => this.#seal.seal(INBOX, line);
    return new InboxLog({ uuid, dir, fs: this.#fs, seal, rest, syncSteps: () => this.#steps.sync() });
  }

  /** On disk together: who starts first does not matter, all are there before the caller goes on. */
  async #syncRecords(): Promise<void> {
    for (let settled = false; !settled; ) {
      const tasks = [
        this.#info.sync(),
        this.#meta.sync(),
        this.#journalLog?.sync(),
        this.#stepLog?.sync(),
        this.#keptResults?.sync(),
        this.#syncNames(),
      ] as const;
      // Until all are over, also when one fails: nothing is left running.
      await Promise.allSettled(tasks);
      const [info, meta] = await Promise.all(tasks);
      settled = [this.#info.settle(info), this.#meta.settle(meta)].every(Boolean);
    }
  }

  /** A file's own sync need not make its name durable, nor that of the folder it is in. */
  #syncNames(): Promise<unknown> {
    if (this.#namesDirty.length > 0) {
      const folders = this.#namesDirty;
      this.#namesDirty = [];
      this.#namesSyncing = Promise.all(folders.map((folder) => syncDirectory(folder, this.#fs)));
    }
    return this.#namesSyncing;
  }

  /** The last line of a capped events.jsonl says that, and how much, is missing. */
  #noteDropped(): void {
    if (this.#eventsDropped === 0 || !this.#lastEvent) return;
    const { timestamp_ms, pid } = this.#lastEvent;
    const error = `${this.#eventsDropped} events are not recorded: a run keeps ${this.#limits.events_per_run}, and only what the disk takes.`;
    const args = { dropped: this.#eventsDropped, limit: this.#limits.events_per_run };
    this.#eventsDropped = 0;
    const line = versioned({
      timestamp_ms,
      pid,
      syscall: "EventsDropped",
      args,
      error,
      error_code: "EXHAUSTED",
      duration_ms: 0,
    });
    if (this.untraced) this.#tryToWrite(line);
    else this.#events.push(line);
  }

  /** What could not be read may be written to all the same. Whoever goes on with the run knows that it may not. */
  #tryToWrite(line: string): void {
    try {
      this.#eventLog.append(line);
    } catch (error) {
      if (!(error instanceof SyscallError)) throw error;
    }
  }

  #throwFailure(): void {
    if (this.#failure) throw this.#failure;
  }
}

/** The text of a proc-info.json in this data folder. How it was found when it was read is not part of it. */
export function sealedInfo(info: ProcInfo, dataDir: string, seal: RecordSeal): string {
  const { foreign: _foreign, moved_from: _movedFrom, ...recorded } = info;
  return seal.seal(INFO, JSON.stringify({ ...recorded, data_dir: dataDir }));
}

/** One line of JSON that says its schema version; stringified once. */
export function versioned(record: object): string {
  const json = JSON.stringify(record);
  return "v" in record ? json : `{"v":${SCHEMA_VERSION},${json.slice(1)}`;
}
