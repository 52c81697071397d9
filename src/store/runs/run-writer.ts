/** The writer of all files of one run. */

import { dirname, join } from "node:path";
import type { Data, SyscallError } from "../../plugin/index.ts";
import { eventsOfEntry, eventsOfStep, isKept, nameInStep, type RunEvent } from "../../run/events.ts";
import type { UnitDraft } from "../../run/unit-schema.ts";
import type { ChangeDraft } from "../changes/change-log.ts";
import { CHANGES, ObjectStore } from "../changes/object-store.ts";
import { AppendLog } from "../files/append-log.ts";
import { DurableDocument, syncDirectory } from "../files/document.ts";
import { type FsPort, ioError, realFs } from "../files/fs-port.ts";
import { type BlobRef, BlobStore, readBlob } from "./blob-store.ts";
import { InboxLog, type InboxState } from "./inbox-log.ts";
import type { RecordSeal } from "./record-key.ts";
import {
  EventLog,
  INBOX,
  INFO,
  isClosed,
  JOURNAL,
  LineNumbers,
  META,
  SPILL,
  STEPS,
  sealedInfo,
  UNIT_OUTPUT,
  UNITS,
  withState,
} from "./run-files.ts";
import type {
  JournalEntry,
  ProcessMeta,
  ProcInfo,
  StateEvent,
  StepRecord,
  SyscallEventWire,
} from "./schema.ts";

export interface RunLimits {
  /** Maximum lines of events.jsonl; later events are counted and dropped. */
  events_per_run: number;
  /** Maximum bytes of results beside the records; later results are shown truncated and not stored. */
  results_per_run?: number;
  /** Maximum bytes of the contents of changed files; later ones can't be taken back. */
  undo_per_run?: number;
}

export const DEFAULT_UNDO_BYTES = 256 * 1024 * 1024;

const DEFAULT_RUN_LIMITS: RunLimits = { events_per_run: 100_000 };

/**
 * Size at which a durable journal is emptied; otherwise it is emptied at the run's end. Readers ignore recorded
 * steps. On most file systems, truncating a file costs more than all other writes of a step.
 */
const JOURNAL_BYTES = 64 * 1024;
/** A run whose folder exists. */
export interface RunWriterOptions {
  uuid: string;
  dir: string;
  /** Authenticates the run's records. */
  seal: RecordSeal;
  fs?: FsPort;
  limits?: RunLimits;
  /** Parent folders of the run's folder that may not be durable yet. */
  above?: readonly string[];
  /**
   * For a resumed run: the number of events in events.jsonl, or why it can't be read; then new events are counted and
   * dropped.
   */
  taken?: number | SyscallError;
  /** The journal holds entries; `open`: those of the open step. */
  journalled?: boolean;
  open?: readonly JournalEntry[];
  /** The last numbers in the run's files: new lines continue from them. */
  numbers?: LineNumbers;
  states?: readonly StateEvent[];
  /** The content of inbox.jsonl. */
  inbox?: InboxState;
  /** Called before a closed record is written again. */
  changing?: () => void;
  /** Called when the records have ended. */
  closed?: () => void;
}

/**
 * Writes the files of one run. When a method returns, its data survives a kill of the process; after
 * `sync`, all data so far survives a power loss. Every method fails with EXHAUSTED or UNAVAILABLE when the disk rejects
 * a write. The caller then stops the run before the effect that should have been recorded. No file is open between
 * steps.
 */
export class RunWriter {
  readonly uuid: string;
  /** `<data>/steps/<uuid>`, absolute. */
  readonly dir: string;
  readonly #fs: FsPort;
  readonly #seal: RecordSeal;
  readonly #there: boolean;
  /** By file. Made on first use: thousands of runs may wait for their first answer. */
  readonly #logs = new Map<string, AppendLog>();
  readonly #events: EventLog;
  readonly #info: DurableDocument;
  readonly #meta: DurableDocument;
  #blobStore: BlobStore | undefined;
  #objectStore: ObjectStore | undefined;
  #inbox: InboxLog | undefined;
  readonly #limits: RunLimits;
  /** Number of journal entries, to detect one that was added during a sync. */
  #entries = 0;
  /** The journal holds entries of a step that is not recorded yet. */
  #stepOpen: boolean;
  /** The journal may be durable. Then it is emptied only when the step's record is durable too. */
  #journalDurable: boolean;
  #emptying: Promise<void> = Promise.resolve();
  #failure: SyscallError | undefined;
  /** Folders whose entries are not durable yet: the run's folder and its parents. */
  #namesDirty: string[];
  #namesSyncing: Promise<unknown> = Promise.resolve();
  readonly #changing: () => void;
  readonly #closed: () => void;
  /** The record on disk is closed: listings look at it only when they are notified. */
  #isClosed: boolean;
  readonly #numbers: LineNumbers;
  readonly #openNumbers = new OpenStepNumbers();
  #states: readonly StateEvent[];
  /** Called when something is written. */
  #watchers: readonly ((events: readonly RunEvent[]) => void)[] = [];

  constructor(o: RunWriterOptions) {
    this.uuid = o.uuid;
    this.dir = o.dir;
    this.#fs = o.fs ?? realFs;
    this.#seal = o.seal;
    this.#limits = o.limits ?? DEFAULT_RUN_LIMITS;
    if (o.inbox) this.#inbox = this.#newInbox(o.inbox);
    this.#stepOpen = o.journalled ?? false;
    this.#journalDurable = o.journalled ?? false;
    const fs = this.#fs;
    const { dir } = o;
    this.#namesDirty = [dir, ...(o.above ?? [])];
    const there = o.taken !== undefined;
    this.#there = there;
    this.#isClosed = there;
    this.#changing = o.changing ?? (() => {});
    this.#closed = o.closed ?? (() => {});
    this.#numbers = o.numbers ?? new LineNumbers();
    this.#states = o.states ?? [];
    for (const entry of o.open ?? []) this.#openNumbers.add(entry);
    this.#info = new DurableDocument(join(dir, INFO), { fs, there });
    this.#meta = new DurableDocument(join(dir, META), { fs, there });
    // The first sync also makes the files of the earlier writer durable.
    if (there) for (const file of [STEPS, JOURNAL]) this.#log(file);
    const { events_per_run: limit } = this.#limits;
    this.#events = new EventLog({ uuid: o.uuid, dir, fs, limit, taken: o.taken ?? 0 });
  }

  /** The absolute folder for program output that exceeds memory. Made on first use. */
  get spillDir(): string {
    return join(this.dir, SPILL);
  }

  /** The absolute folder for the output of background units. Made on first use. */
  get unitDir(): string {
    return join(this.dir, UNIT_OUTPUT);
  }

  /** The inbox of the run. Made on first use: most runs receive no message. */
  get inbox(): InboxLog {
    this.#inbox ??= this.#newInbox();
    return this.#inbox;
  }

  /** Replaces the process record. Not durable by itself: `sync` and `close` make it so. */
  info(info: ProcInfo): void {
    if (this.#isClosed) this.#changing();
    this.#isClosed = isClosed(info);
    const dataDir = dirname(dirname(this.dir));
    this.#numbered(() => {
      const states = withState(this.#states, info, () => this.#numbers.take());
      this.#info.replace(sealedInfo(info, dataDir, this.#seal, states));
      this.#states = states;
    });
    this.#nameDirty();
  }

  /** Replaces the prompt's head and the tools, at spawn and when tools are added. `sync` and `close` make it durable. */
  meta(meta: ProcessMeta): void {
    this.#meta.replace(this.#seal.seal(META, JSON.stringify(meta)));
    this.#nameDirty();
  }

  journal(entry: JournalEntry): number {
    this.#throwFailure();
    const line = this.#numbered(() => {
      const line = { ...entry, n: this.#numbers.take(this.#openNumbers.count(entry)) };
      this.#append(JOURNAL, line);
      return line;
    });
    this.#entries++;
    this.#stepOpen = true;
    this.#publish(this.#openNumbers.add(line));
    return line.n;
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
      // It is unknown what a failed sync lost, and the next one would not report it.
      this.#failure ??= ioError(disk.reason, `make run ${this.uuid} durable`, this.dir);
      throw this.#failure;
    }
    if (events.status === "rejected") throw events.reason;
  }

  /** Records a finished step. Readers then ignore its journal, which is emptied now or later. */
  step(record: StepRecord): void {
    this.#throwFailure();
    // This append may create the file.
    if (this.#steps.size === 0) this.#nameDirty();
    this.#recordSteps(record);
    this.#stepOpen = false;
    if (!this.#journalDurable) this.#journal.empty();
    else if (this.#journal.size >= JOURNAL_BYTES) this.#emptyWhenRecorded();
    this.#journal.close();
    this.#inbox?.acknowledge(record);
    this.flush();
  }

  /** Records the steps that a fork begins with. Called before the fork records a step of its own. */
  inherit(records: readonly StepRecord[]): void {
    this.#nameDirty();
    this.#recordSteps(...records);
  }

  /** Buffers a syscall event; it is written in a batch, or with the step. */
  event(event: SyscallEventWire): void {
    this.#events.add(event);
  }

  /** Writes the buffered events. After a failure they stay buffered, and the next call tries again. */
  flush(): void {
    this.#events.flush();
  }

  /** Why no event is recorded: events.jsonl can't be read. */
  get untraced(): SyscallError | undefined {
    return this.#events.untraced;
  }

  /** Stores data beside the run, for a record to refer to: see BlobStore. */
  storeBlob(name: string, data: Data): Promise<BlobRef & { path: string }> {
    return this.#blobs.store(name, data);
  }

  /** Reads stored data. Fails with INVALID when it is missing or has changed. */
  readBlob(ref: BlobRef): Promise<Uint8Array> {
    return readBlob(this.#fs, this.dir, ref);
  }

  /** Records what the run changed in files. Written at once, and durable with the next `sync`. */
  change(...drafts: ChangeDraft[]): void {
    this.#append(CHANGES, ...drafts);
  }

  /** Records what becomes of a background unit. Written at once, and durable with the next `sync`. */
  unit(draft: UnitDraft): void {
    this.#append(UNITS, draft);
  }

  /** The contents of files before and after the run's changes. */
  get objects(): ObjectStore {
    const { dir } = this;
    const maxBytes = this.#limits.undo_per_run ?? DEFAULT_UNDO_BYTES;
    this.#objectStore ??= new ObjectStore({ dir, fs: this.#fs, maxBytes });
    return this.#objectStore;
  }

  /** Ends the run's records: everything is durable and no file is open. Safe to call again. */
  async close(): Promise<void> {
    try {
      this.#events.recordDropped();
      await this.sync();
      await this.#emptying;
      this.#throwFailure();
      if (!this.#stepOpen && this.#journalDurable) this.#emptyJournal();
      await this.#inbox?.close();
      this.#closed();
      this.#publish();
    } finally {
      this.#logs.get(JOURNAL)?.close();
    }
  }

  /** The number of the last event. All up to it are written. */
  get last(): number {
    return this.#numbers.last;
  }

  /**
   * Calls `written` after each write, until the returned function is called: with the events of a step that are written
   * for the first time. Each comes once, in the order of its number.
   */
  watch(written: (events: readonly RunEvent[]) => void): () => void {
    this.#watchers = [...this.#watchers, written];
    return () => {
      this.#watchers = this.#watchers.filter((one) => one !== written);
    };
  }

  #recordSteps(...records: readonly StepRecord[]): void {
    const { last } = this;
    const next = (): number => this.#numbers.take();
    const numbered = this.#numbered(() => {
      const lines = records.map((one) => ({ ...this.#openNumbers.of(one, next), n: next() }));
      this.#append(STEPS, ...lines);
      return lines;
    });
    this.#openNumbers.clear();
    this.#publish(numbered.flatMap(eventsOfStep).filter(({ n = 0 }) => n > last));
  }

  /**
   * Empties the journal after the step's record is durable. Emptied earlier, a power loss could take the record and
   * leave no trace of the step's effects. Until then, readers ignore the journal of the recorded step.
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

  /** If the next step has begun, the journal holds both steps, and is emptied after that step's record. */
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

  get #steps(): AppendLog {
    return this.#log(STEPS);
  }

  get #journal(): AppendLog {
    return this.#log(JOURNAL);
  }

  get #blobs(): BlobStore {
    const { uuid, dir } = this;
    this.#blobStore ??= new BlobStore({ uuid, dir, fs: this.#fs, maxBytes: this.#limits.results_per_run });
    return this.#blobStore;
  }

  /** Appends records. A record without a number takes the next one. Returns the lines. */
  #append(file: string, ...records: readonly { n?: number }[]): string[] {
    return this.#appendTo(this.#log(file), file, records);
  }

  #appendTo(log: AppendLog, file: string, records: readonly { n?: number }[]): string[] {
    return this.#numbered(() => {
      const lines = records.map((record) => {
        const n = record.n ?? this.#numbers.take();
        // The inbox is shortened while the run lives, so its lines do not name the line before.
        return this.#seal.seal(file, JSON.stringify(this.#numbers.line(file, n, record, file !== INBOX)));
      });
      log.append(...lines);
      return lines;
    });
  }

  #numbered<T>(write: () => T): T {
    const result = this.#numbers.undoneOnFailure(write);
    this.#publish();
    return result;
  }

  #publish(events: readonly RunEvent[] = []): void {
    for (const written of this.#watchers) written(events);
  }

  #log(file: string): AppendLog {
    const known = this.#logs.get(file);
    if (known) return known;
    const path = join(this.dir, file);
    const left = this.#there && this.#fs.stat(path) !== null;
    const o = { fs: this.#fs, left, keepOpen: file === JOURNAL };
    const log = new AppendLog(path, `${file} of run ${this.uuid}`, o);
    this.#logs.set(file, log);
    return log;
  }

  #nameDirty(): void {
    if (!this.#namesDirty.includes(this.dir)) this.#namesDirty.push(this.dir);
  }

  #newInbox(rest?: InboxState): InboxLog {
    const { uuid, dir } = this;
    const seal = (line: string): string => this.#seal.seal(INBOX, line);
    const append = (log: AppendLog, records: readonly object[]) => this.#appendTo(log, INBOX, records);
    return new InboxLog({ uuid, dir, fs: this.#fs, seal, append, rest, syncSteps: () => this.#steps.sync() });
  }

  /** Syncs all records in parallel and returns when all are durable. */
  async #syncRecords(): Promise<void> {
    for (let settled = false; !settled; ) {
      const tasks = [
        this.#info.sync(),
        this.#meta.sync(),
        this.#blobStore?.sync(),
        this.#syncNames(),
        ...[...this.#logs.values()].map((log) => log.sync()),
      ] as const;
      // Wait for all, also when one fails: no sync is left running.
      await Promise.allSettled(tasks);
      const [info, meta] = await Promise.all(tasks);
      settled = [this.#info.settle(info), this.#meta.settle(meta)].every(Boolean);
    }
  }

  /** Makes file and folder names durable; syncing a file does not do that. */
  #syncNames(): Promise<unknown> {
    if (this.#namesDirty.length > 0) {
      const folders = this.#namesDirty;
      this.#namesDirty = [];
      this.#namesSyncing = Promise.all(folders.map((folder) => syncDirectory(folder, this.#fs)));
    }
    return this.#namesSyncing;
  }

  #throwFailure(): void {
    if (this.#failure) throw this.#failure;
  }
}

/** The numbers of the open step's events, until its record holds them. */
class OpenStepNumbers {
  #numbers = new Map<string, number>();
  #begun = new Set<string>();
  #entries: NonNullable<StepRecord["entries"]> = [];

  count(entry: JournalEntry): number {
    return eventsOfEntry(entry, new Set(this.#begun)).length;
  }

  add(entry: JournalEntry): RunEvent[] {
    const events = eventsOfEntry(entry, this.#begun);
    for (const event of events) if (event.n !== undefined) this.#numbers.set(nameInStep(event), event.n);
    if (isKept(entry)) this.#entries.push(entry);
    return events;
  }

  /** Returns the record with the numbers of its events. `next`: numbers one that the journal does not hold. */
  of(record: StepRecord, next: () => number): StepRecord {
    const events = eventsOfStep(record).slice(0, -1);
    const ns = events.map((event) => this.#numbers.get(nameInStep(event)) ?? next());
    return { ...record, ns, ...(this.#entries.length > 0 && { entries: this.#entries }) };
  }

  clear(): void {
    this.#numbers = new Map();
    this.#begun = new Set();
    this.#entries = [];
  }
}
