import { join } from "node:path";
import type { Data } from "../plugin/index.ts";
import { SyscallError } from "../plugin/index.ts";
import { AppendLog } from "./append-log.ts";
import { makeFolder, replaceDocumentNow, syncDirectory, syncDocument } from "./document.ts";
import { errno, type FsPort, ioError, realFs, writeAllAsync } from "./fs-port.ts";
import { InboxLog, type InboxRest } from "./inbox-log.ts";
import type { JournalEntry, ProcessMeta, ProcInfo, StepRecord, SyscallEventWire } from "./schema.ts";
import { SCHEMA_VERSION } from "./schema-version.ts";

export const STEPS = "steps.jsonl";
export const JOURNAL = "step.journal";
export const EVENTS = "events.jsonl";
export const INFO = "proc-info.json";
export const META = "process-meta.json";
const SPILL = "spill";

export interface RunLimits {
  /** Lines of events.jsonl; what comes after is counted and dropped. */
  eventsPerRun: number;
}

const DEFAULT_RUN_LIMITS: RunLimits = { eventsPerRun: 100_000 };

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
  readonly #fs: FsPort;
  readonly #steps: AppendLog;
  readonly #journal: AppendLog;
  readonly #eventLog: AppendLog;
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
  #infoDirty = false;
  #namesDirty = true;
  readonly #spilled = new Map<string, number>();

  /**
   * The folder is there. `taken`: events that events.jsonl holds already; `journalled`: so does the journal;
   * `inbox`: what inbox.jsonl does.
   */
  constructor(o: {
    uuid: string;
    dir: string;
    fs?: FsPort;
    limits?: RunLimits;
    taken?: number;
    journalled?: boolean;
    inbox?: InboxRest;
  }) {
    this.uuid = o.uuid;
    this.dir = o.dir;
    this.#fs = o.fs ?? realFs;
    this.#limits = o.limits ?? DEFAULT_RUN_LIMITS;
    this.#eventsTaken = o.taken ?? 0;
    if (o.inbox) this.#inbox = this.#newInbox(o.inbox);
    this.#stepOpen = o.journalled ?? false;
    this.#journalDurable = o.journalled ?? false;
    const fs = this.#fs;
    this.#steps = new AppendLog(join(o.dir, STEPS), `${STEPS} of run ${o.uuid}`, { fs });
    this.#journal = new AppendLog(join(o.dir, JOURNAL), `${JOURNAL} of run ${o.uuid}`, {
      fs,
      keepOpen: true,
    });
    this.#eventLog = new AppendLog(join(o.dir, EVENTS), `${EVENTS} of run ${o.uuid}`, { fs });
  }

  /** Where results too large to show are kept, absolute. Made on first use. */
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
    replaceDocumentNow(join(this.dir, INFO), JSON.stringify(info), this.#fs);
    this.#infoDirty = true;
  }

  /** Replaces the prompt's head and the tools: at spawn, and when tools were added. */
  meta(meta: ProcessMeta): void {
    replaceDocumentNow(join(this.dir, META), JSON.stringify(meta), this.#fs);
    this.#namesDirty = true;
  }

  /** Appends to the open step: an answer, a call's start, a call's end. */
  journal(entry: JournalEntry): void {
    this.#throwFailure();
    this.#journal.append(versioned(entry));
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
      // On disk together: who starts first does not matter, all are there before the caller goes on.
      all([this.#journal.sync(), this.#steps.sync(), this.#syncNames()]),
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
    this.#steps.append(versioned(record));
    this.#stepOpen = false;
    if (!this.#journalDurable) this.#journal.empty();
    else if (this.#journal.size >= JOURNAL_BYTES) this.#emptyWhenRecorded();
    this.#journal.close();
    this.#inbox?.acknowledge(record);
    this.flush();
  }

  /** Keeps a syscall event; written in batches, at the latest with the step. */
  event(event: SyscallEventWire): void {
    if (this.#eventsTaken >= this.#limits.eventsPerRun || this.#events.length >= MAX_PENDING_EVENTS) {
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

  /**
   * Keeps data beside the run. The name is made safe and unique; the absolute path is returned. A file is
   * never written to twice.
   */
  async spill(name: string, data: Data): Promise<string> {
    makeFolder(this.spillDir, this.#fs);
    const { fd, path } = this.#createSpill(safeName(name));
    try {
      await writeAllAsync(this.#fs, fd, typeof data === "string" ? Buffer.from(data) : data);
    } catch (error) {
      this.#fs.remove(path);
      throw ioError(error, `keep a result of run ${this.uuid}`, path);
    } finally {
      this.#fs.close(fd);
    }
    return path;
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
      this.#journal.close();
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

  #newInbox(rest?: InboxRest): InboxLog {
    const { uuid, dir } = this;
    return new InboxLog({ uuid, dir, fs: this.#fs, rest, syncSteps: () => this.#steps.sync() });
  }

  async #syncNames(): Promise<void> {
    if (this.#infoDirty) {
      this.#infoDirty = false;
      this.#namesDirty = false;
      await syncDocument(join(this.dir, INFO), this.#fs);
    } else if (this.#namesDirty) {
      this.#namesDirty = false;
      await syncDirectory(this.dir, this.#fs);
    }
  }

  /** The last line of a capped events.jsonl says that, and how much, is missing. */
  #noteDropped(): void {
    if (this.#eventsDropped === 0 || !this.#lastEvent) return;
    const { timestamp_ms, pid } = this.#lastEvent;
    const error = `${this.#eventsDropped} events are not recorded: a run keeps ${this.#limits.eventsPerRun}, and only what the disk takes.`;
    const args = { dropped: this.#eventsDropped, limit: this.#limits.eventsPerRun };
    this.#eventsDropped = 0;
    this.#events.push(
      versioned({
        timestamp_ms,
        pid,
        syscall: "EventsDropped",
        args,
        error,
        error_code: "EXHAUSTED",
        duration_ms: 0,
      }),
    );
  }

  #createSpill(name: string): { fd: number; path: string } {
    for (let n = this.#spilled.get(name) ?? 1; n < MAX_SPILLS; n++) {
      const path = join(this.spillDir, n === 1 ? name : numbered(name, n));
      this.#spilled.set(name, n + 1);
      try {
        return { fd: this.#fs.open(path, "create"), path };
      } catch (error) {
        if (errno(error) !== "EEXIST") throw ioError(error, `keep a result of run ${this.uuid}`, path);
      }
    }
    throw new SyscallError("EXHAUSTED", `Run ${this.uuid} has kept ${MAX_SPILLS} results named ${name}.`);
  }

  #throwFailure(): void {
    if (this.#failure) throw this.#failure;
  }
}

const MAX_SPILLS = 100_000;
const MAX_NAME = 100;

/** One line of JSON that says its schema version; stringified once. */
function versioned(record: object): string {
  const json = JSON.stringify(record);
  return "v" in record ? json : `{"v":${SCHEMA_VERSION},${json.slice(1)}`;
}

/** Waits for all of them to be over before the first failure is thrown: nothing is left running. */
async function all(tasks: Promise<void>[]): Promise<void> {
  for (const result of await Promise.allSettled(tasks)) {
    if (result.status === "rejected") throw result.reason;
  }
}

function safeName(name: string): string {
  const safe = name
    .replace(/[^A-Za-z0-9._-]+/g, "_")
    .replace(/^[._]+/, "")
    .slice(0, MAX_NAME);
  return safe === "" ? "result" : safe;
}

function numbered(name: string, n: number): string {
  const dot = name.lastIndexOf(".");
  return dot > 0 ? `${name.slice(0, dot)}-${n}${name.slice(dot)}` : `${name}-${n}`;
}
