/** Reads the records of the runs of one data folder. */

import { join } from "node:path";
import type { z } from "zod";
import { errnoOf } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import { eventsOfJournal, eventsOfStep, type RunEvent } from "../../run/events.ts";
import { openStep } from "../../run/open-step.ts";
import { initialState, type RunState, reduce } from "../../run/state.ts";
import type { UnitLine } from "../../run/unit-schema.ts";
import type { ChangeLine } from "../changes/change-log.ts";
import { CHANGES } from "../changes/object-store.ts";
import { isLink, linkIn } from "../files/data-dir.ts";
import { checkSchemaVersion, parseDocument, readDurable } from "../files/document.ts";
import { type FsPort, ioError, namesIn, realFs, withFile } from "../files/fs-port.ts";
import { type LineFaults, type LogPage, type LogPosition, readLog } from "../files/read-log.ts";
import { type BlobRef, type BlobStatus, checkBlob, readBlob } from "./blob-store.ts";
import { type InboxState, unreadMessages } from "./inbox-log.ts";
import { UUID } from "./own-run.ts";
import { keyOfThisProcess, type RecordKey, type RecordSeal } from "./record-key.ts";
import { EVENTS, INBOX, INFO, JOURNAL, META, numberOf, STEPS, UNITS } from "./run-files.ts";
import type {
  InboxLine,
  JournalEntry,
  ProcessMeta,
  ProcInfo,
  StateEvent,
  StepRecord,
  SyscallEventWire,
} from "./schema.ts";

export interface Page extends Partial<LogPosition> {
  limit?: number;
  /** Skip the lines whose last event has this or a smaller number. */
  newer?: number;
  /** Skip the lines without this text. */
  including?: string;
}

const DEFAULT_PAGE = 10_000;
/** Records in memory while all of a file are read. */
const BATCH = 100;
/** Files whose first lines may have been removed. */
const REMOVED = [JOURNAL, INBOX];
const ALL: Page = { limit: Number.MAX_SAFE_INTEGER };

/** Collects what of a file can't be read or is foreign. */
export interface FaultCollector {
  add(file: string, faults: LineFaults): unknown;
}

/** The records below `steps/<uuid>/` of one data folder. Reading changes nothing. */
export class RunRecords {
  readonly dataDir: string;
  protected readonly fs: FsPort;
  protected readonly key: RecordKey;
  protected readonly stepsDir: string;

  /** `key`: the key of the user whose records count as own. */
  constructor(dataDir: string, fs: FsPort = realFs, key: RecordKey = keyOfThisProcess()) {
    this.dataDir = dataDir;
    this.fs = fs;
    this.key = key;
    this.stepsDir = join(dataDir, "steps");
  }

  /** Returns the absolute folder of a run, which need not exist. Fails with INVALID when `uuid` is not a UUID. */
  dir(uuid: string): string {
    if (!UUID.test(uuid)) {
      throw new SyscallError("INVALID", `Expected a run's UUID, got ${JSON.stringify(uuid)}.`);
    }
    return join(this.stepsDir, uuid);
  }

  /**
   * Reads a run's process record; null when there is no such run. `foreign` is set when this user's Rnix did not write
   * it, `moved_from` when it was written in another folder. Fails with INVALID when it is damaged or another run's.
   */
  async info(uuid: string): Promise<ProcInfo | null> {
    const { ProcInfo, RecordedDataDir } = await schemas();
    const what = `${INFO} of run ${uuid}`;
    const seal = this.sealOf(uuid);
    let recordedIn = this.dataDir;
    const read = await readDurable(
      join(this.dir(uuid), INFO),
      (text): ProcInfo => {
        const { foreign: _foreign, moved_from: _movedFrom, ...said } = parseDocument(ProcInfo, text, what);
        if (!seal.isSealed(INFO, text)) return { ...said, foreign: true };
        recordedIn = parseDocument(RecordedDataDir, text, what).data_dir;
        return said;
      },
      this.fs,
    );
    const isHere = read === null || recordedIn === this.dataDir;
    const info = isHere ? read : (await import("./relocate.ts")).located(read, recordedIn, this.dataDir);
    if (info === null || info.uuid === uuid) return info;
    const message = `${this.dir(uuid)} holds the record of run ${info.uuid}: it was copied or renamed. Rename the folder to that UUID, or remove it.`;
    throw new SyscallError("INVALID", message);
  }

  /** The latest changes of a run's state, in order. */
  async states(uuid: string): Promise<StateEvent[]> {
    const { RecordedStates } = await schemas();
    const read = (text: string) => parseDocument(RecordedStates, text, `${INFO} of run ${uuid}`).states;
    return (await readDurable(join(this.dir(uuid), INFO), read, this.fs)) ?? [];
  }

  async meta(uuid: string): Promise<(ProcessMeta & { foreign?: true }) | null> {
    const { ProcessMeta } = await schemas();
    const seal = this.sealOf(uuid);
    return readDurable(
      join(this.dir(uuid), META),
      (text) => {
        const meta = parseDocument(ProcessMeta, text, `${META} of run ${uuid}`);
        return seal.isSealed(META, text) ? meta : { ...meta, foreign: true as const };
      },
      this.fs,
    );
  }

  /** The names of the runs' folders, with or without a record: sorted, which is oldest first. */
  async uuids(): Promise<string[]> {
    if (this.linked() !== null) return [];
    const names = await namesIn(this.fs, this.stepsDir, "list the runs");
    return names.filter((name) => UUID.test(name)).sort();
  }

  /** Returns the UUIDs that begin with `prefix`, oldest first. */
  async find(prefix: string): Promise<string[]> {
    const wanted = prefix.toLowerCase();
    return (await this.uuids()).filter((uuid) => uuid.startsWith(wanted));
  }

  async steps(uuid: string, page: Page = {}): Promise<LogPage<StepRecord>> {
    return this.#log(uuid, STEPS, (await schemas()).StepRecord, page);
  }

  async *everyStep(uuid: string, lost?: FaultCollector): AsyncGenerator<StepRecord> {
    yield* this.#all(uuid, STEPS, (await schemas()).StepRecord, lost);
  }

  /** `syscall`: events of this one alone. */
  async *everyEvent(uuid: string, lost?: FaultCollector, syscall?: string): AsyncGenerator<SyscallEventWire> {
    const including = syscall && `"syscall":${JSON.stringify(syscall)}`;
    for await (const event of this.#all(uuid, EVENTS, (await schemas()).SyscallEventWire, lost, including))
      if (syscall === undefined || event.syscall === syscall) yield event;
  }

  /** What happened to a run, in order: the events of its finished steps, then those of the open one. */
  async *story({ uuid }: Pick<ProcInfo, "uuid">, lost?: FaultCollector): AsyncGenerator<RunEvent> {
    // The journal is read first: a step that is recorded meanwhile is in the steps then. In the other order it would be
    // in neither.
    const { records, ...faults } = await this.journalLines(uuid);
    let recorded = 0;
    for await (const step of this.everyStep(uuid, lost)) {
      recorded = Math.max(recorded, step.step);
      yield* eventsOfStep(step);
    }
    lost?.add(JOURNAL, faults);
    yield* eventsOfJournal(openStep(records, recorded));
  }

  async state(run: Pick<ProcInfo, "uuid">): Promise<RunState> {
    const state = initialState();
    for await (const event of this.story(run)) reduce(state, event);
    return state;
  }

  async events(uuid: string, page: Page = {}): Promise<LogPage<SyscallEventWire>> {
    return this.#log(uuid, EVENTS, (await schemas()).SyscallEventWire, page);
  }

  /** What the run changed in files, and what was taken back, in order. */
  async changes(uuid: string, page = ALL): Promise<LogPage<ChangeLine>> {
    const { ChangeLine } = await import("../changes/change-log.ts");
    return this.#log(uuid, CHANGES, ChangeLine, page);
  }

  async units(uuid: string, page = ALL): Promise<LogPage<UnitLine>> {
    const { UnitLine: Line } = await import("../../run/unit-schema.ts");
    return this.#log(uuid, UNITS, Line, page);
  }

  async messages(uuid: string, page = ALL): Promise<LogPage<InboxLine>> {
    return this.#log(uuid, INBOX, (await schemas()).InboxLine, page);
  }

  /** Reads the unread inbox entries of a run. Changes nothing. `state`: that of the run, if it is known. */
  async inbox(uuid: string, state?: RunState): Promise<InboxState & LineFaults> {
    const { records, next: _, ...faults } = await this.messages(uuid);
    const bytes = this.#size(uuid, INBOX);
    const { acknowledged } = bytes === null ? initialState() : (state ?? (await this.state({ uuid })));
    return { ...unreadMessages(records, acknowledged, bytes ?? 0), ...faults };
  }

  /** Whether a run may have unread inbox entries: an inbox without them is emptied when its run ends. */
  hasInbox(uuid: string): boolean {
    return (this.#size(uuid, INBOX) ?? 0) > 0;
  }

  /** Checks a result beside the run, content included. */
  async checkBlob(uuid: string, ref: BlobRef): Promise<BlobStatus> {
    return checkBlob(this.fs, this.dir(uuid), ref, { whole: true });
  }

  /** Reads a result beside the run. Fails with INVALID when it is missing or has changed. */
  readBlob(uuid: string, ref: BlobRef): Promise<Uint8Array> {
    return readBlob(this.fs, this.dir(uuid), ref);
  }

  /** The root run of a run's tree, as far as its records are here. Damaged records may form a circle. */
  async rootOf(uuid: string): Promise<string> {
    const passed = new Set<string>();
    for (let one = uuid; ; ) {
      passed.add(one);
      const parent = (await this.info(one))?.parent_uuid ?? null;
      if (parent === null || passed.has(parent) || (await this.info(parent)) === null) return one;
      one = parent;
    }
  }

  /** Returns when a file was last made or removed in a run's folder; null when there is no folder. */
  folderTime(uuid: string): number | null {
    return this.fs.stat(this.dir(uuid))?.mtimeMs ?? null;
  }

  /** Returns an error when the path to the runs leads through a link, in which case no run is read; otherwise null. */
  linked(): SyscallError | null {
    const link = linkIn(this.dataDir, ["steps"], this.fs);
    return link === null ? null : isLink(link);
  }

  /** The lines of the journal, also those of recorded steps. */
  async journalLines(uuid: string): Promise<LogPage<JournalEntry>> {
    return this.#log(uuid, JOURNAL, (await schemas()).JournalEntry, ALL);
  }

  protected sealOf(uuid: string): RecordSeal {
    return this.key.sealOf(`run ${uuid}`);
  }

  /** All records of a file. Each page continues at the byte where the one before ended. */
  async *#all<T>(
    uuid: string,
    file: string,
    schema: z.ZodType<T>,
    lost: FaultCollector | undefined,
    including?: string,
  ): AsyncGenerator<T> {
    for (let from: LogPosition = { after: 0, at: 0 }; ; ) {
      const page = await this.#log(uuid, file, schema, { ...from, limit: BATCH, including });
      lost?.add(file, page);
      yield* page.records;
      if (page.next.after === from.after) return;
      from = page.next;
    }
  }

  #log<T>(uuid: string, file: string, schema: z.ZodType<T>, page: Page): Promise<LogPage<T>> {
    const seal = this.sealOf(uuid);
    return readLog(this.fs, join(this.dir(uuid), file), {
      ...page,
      after: page.after ?? 0,
      limit: page.limit ?? DEFAULT_PAGE,
      // Lines of the journal and the inbox are removed.
      lastNumber: page.lastNumber ?? (page.after || REMOVED.includes(file) ? undefined : 0),
      numberOf,
      // No decision depends on the trace, so its lines have no MAC.
      isOwn: file === EVENTS ? undefined : (line) => seal.isSealed(file, line),
      decode: (value, line) => {
        checkSchemaVersion(value, `Line ${line} of ${file} of run ${uuid}`);
        return schema.parse(value);
      },
    });
  }

  /** Returns the size of a file in bytes; null when there is none. */
  #size(uuid: string, file: string): number | null {
    const path = join(this.dir(uuid), file);
    try {
      return withFile(this.fs, path, "read", (fd) => this.fs.size(fd));
    } catch (error) {
      if (errnoOf(error) === "ENOENT") return null;
      throw ioError(error, `read ${file} of run ${uuid}`, path);
    }
  }
}

/** Loads the schemas on first read: to build them takes longer than to write a whole run. */
function schemas(): Promise<typeof import("./schema.ts")> {
  return import("./schema.ts");
}
