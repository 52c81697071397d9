/** The runs of one data folder: make, read, claim, fork and remove them. */

import { dirname, join } from "node:path";
import type { z } from "zod";
import { SyscallError } from "../../plugin/index.ts";
import type { ChangeDraft, ChangeLine } from "../changes/change-log.ts";
import { CHANGES, ObjectStore } from "../changes/object-store.ts";
import { DailySpending } from "../daily-spending.ts";
import { AppendLog, type LogPage, readLog } from "../files/append-log.ts";
import { countIfReadable, countLines } from "../files/count-lines.ts";
import { isLink, linkIn, prepareDataDir } from "../files/data-dir.ts";
import {
  checkSchemaVersion,
  makeFolder,
  parseDocument,
  removeAll,
  replaceDocument,
  syncDirectory,
} from "../files/document.ts";
import { DurableDocument, readDurable, repairDurable } from "../files/durable-document.ts";
import type { FileLock } from "../files/file-lock.ts";
import { errno, type FsPort, ioError, namesIn, realFs, withFile } from "../files/fs-port.ts";
import { type BlobRef, type BlobStatus, checkBlob, readBlob } from "./blob-store.ts";
import { ChangedRuns } from "./changed-runs.ts";
import type { CollectedRuns } from "./collected-runs.ts";
import { acknowledgedBy, INBOX } from "./inbox-log.ts";
import { isMixed, openStep } from "./open-step.ts";
import { foreignLines, requireOwn, UUID } from "./own-run.ts";
import { keyOfThisProcess, type RecordKey } from "./record-key.ts";
import type { RecordSeal } from "./record-seal.ts";
import { located } from "./relocate.ts";
import { claimantOf, claimRun } from "./run-claim.ts";
import { requireClaimable, requirePlainRun } from "./run-folder.ts";
import type { DamagedRun, RunIndex, RunLists } from "./run-index.ts";
import {
  DEFAULT_UNDO_BYTES,
  EVENTS,
  INFO,
  JOURNAL,
  META,
  type RunLimits,
  RunWriter,
  STEPS,
  sealedChange,
  sealedInfo,
  versioned,
} from "./run-writer.ts";
import type { JournalEntry, ProcessMeta, ProcInfo, StepRecord, SyscallEventWire } from "./schema.ts";
import { deliveredBy, type UnreadMessages, unreadMessages } from "./unread-messages.ts";

export { RunWriter } from "./run-writer.ts";

interface Page {
  /** The line after which the page begins; 0 or absent: the first line. */
  after?: number;
  limit?: number;
}

const DEFAULT_PAGE = 10_000;

type Faults = Pick<LogPage<never>, "damaged" | "damagedLines" | "torn" | "foreign">;

interface Journal extends Faults {
  /** The entries of the open step, in order. Empty when no step is open. */
  entries: JournalEntry[];
}

interface Inbox extends UnreadMessages, Faults {
  /** Numbers of the entries that the open step has delivered to the model, by its journal. */
  inOpenStep: number[];
}

interface Survey {
  /** Every run whose record could be read, oldest first. */
  runs: ProcInfo[];
  /** Runs that could not be read, and why: a newer schema, a damaged file, or no record. */
  damaged: DamagedRun[];
}

/** The live and ended runs of one data folder: `steps/<uuid>/`. */
export class RunStore {
  readonly dataDir: string;
  readonly #fs: FsPort;
  readonly #key: RecordKey;
  readonly #steps: string;
  #index: Promise<RunIndex> | undefined;
  readonly #lists: (() => RunLists) | undefined;
  #dailySpending: DailySpending | undefined;
  /** This store has made or reopened a run. */
  #began = false;

  /**
   * `key`: the key of the user whose records count as own. `lists`: reads the runs for listings elsewhere; by default
   * this thread does.
   */
  constructor(
    dataDir: string,
    fs: FsPort = realFs,
    key: RecordKey = keyOfThisProcess(),
    lists: (() => RunLists) | undefined = undefined,
  ) {
    this.dataDir = dataDir;
    this.#lists = lists;
    this.#fs = fs;
    this.#key = key;
    this.#steps = join(dataDir, "steps");
  }

  /** The daily spending of its runs, for the daily budget. */
  get dailySpending(): DailySpending {
    this.#dailySpending ??= new DailySpending(this.dataDir, this.#fs);
    return this.#dailySpending;
  }

  /** Makes the folder of a new run, and the data folder if missing. Fails with INVALID when the UUID exists. */
  create(uuid: string, limits?: RunLimits): RunWriter {
    const dir = this.dir(uuid);
    this.#requireNoLink(["steps"]);
    const made = prepareDataDir(this.dataDir, this.#fs);
    if (!makeFolder(dir, this.#fs)) {
      throw new SyscallError("INVALID", `Run ${uuid} already exists: expected a new UUID.`);
    }
    const seal = this.#seal(uuid);
    const changing = (): void => this.#changing(uuid);
    return new RunWriter({ uuid, dir, seal, fs: this.#fs, limits, above: this.#above(made), changing });
  }

  /** Returns the folders above a run that may not be durable yet. */
  #above(made: boolean): string[] {
    const above = [this.#steps];
    // Once for each store: another run may have made them and been killed.
    if (!this.#began) above.push(this.dataDir, dirname(this.dataDir));
    if (made) above.push(dirname(dirname(this.dataDir)));
    this.#began = true;
    return above;
  }

  /**
   * Opens an ended run for writing. The caller has made sure that no other kernel holds it. Fails with PERMISSION for a
   * foreign run, and with INVALID where its files would be written elsewhere.
   */
  async reopen(uuid: string, limits?: RunLimits): Promise<RunWriter> {
    const dir = this.dir(uuid);
    const info = await this.info(uuid);
    if (info === null) throw noSuchRun(uuid);
    requireOwn(info);
    this.#requireNoLink(["steps"]);
    requirePlainRun(dir, this.#fs);
    for (const file of [INFO, META]) await repairDurable(join(dir, file), this.#fs);
    const taken = await countIfReadable(this.#fs, join(dir, EVENTS), `${EVENTS} of run ${uuid}`);
    const journalled = await this.#tidyJournal(uuid);
    const inbox = await this.inbox(uuid);
    if (inbox.foreign > 0) throw foreignLines(uuid, INBOX, inbox.foreign);
    // The process that made it may have been killed before its first sync.
    const above = this.#above(!this.#began);
    const seal = this.#seal(uuid);
    const changing = (): void => this.#changing(uuid);
    return new RunWriter({
      uuid,
      dir,
      seal,
      fs: this.#fs,
      limits,
      above,
      taken,
      journalled,
      inbox,
      changing,
    });
  }

  /** Notifies listings that a record changes which they would not look at. */
  #changing(uuid: string): void {
    new ChangedRuns(this.dataDir, this.#fs).add(uuid);
  }

  /**
   * Makes a new run from these steps of another run. It copies the files that the steps and `files` name, so the other
   * run may live on or be removed. With `foreign`, it copies only results whose content matches their names. Fails with
   * NOT_FOUND when the other run is removed meanwhile.
   */
  async fork(
    uuid: string,
    origin: { uuid: string; steps: readonly StepRecord[]; files?: readonly string[]; foreign?: boolean },
    limits?: RunLimits,
  ): Promise<RunWriter> {
    const { copyForkFiles } = await import("./fork-files.ts");
    const record = this.create(uuid, limits);
    try {
      const rootDir = this.dir(await this.rootOf(origin.uuid));
      await copyForkFiles(record, { ...origin, dir: this.dir(origin.uuid), rootDir }, this.#fs);
      if ((await this.info(origin.uuid)) === null) throw noSuchRun(origin.uuid);
      return record;
    } catch (error) {
      await this.remove(uuid);
      throw error;
    }
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

  /**
   * Claims a run across all kernels before it is resumed; null when another process has claimed it. The claim is held
   * until the run's record names its new kernel, and released with `remove`.
   */
  claim(uuid: string): FileLock | null {
    this.#requireNoLink(["steps"]);
    requireClaimable(this.dir(uuid), this.#fs);
    return claimRun(uuid, this.dir(uuid));
  }

  /** Returns the system PID of the claimant; null when the run is not claimed or the PID is not recorded. */
  claimant(uuid: string): number | null {
    return claimantOf(uuid, this.dir(uuid));
  }

  /**
   * Durably changes the record of a run that no kernel holds, under a claim. When `change` returns null, or the run is
   * foreign, the record stays as it is. Returns the record; null when the run is claimed or does not exist.
   */
  async amend(uuid: string, change: (info: ProcInfo) => ProcInfo | null): Promise<ProcInfo | null> {
    const dir = this.dir(uuid);
    if (this.#fs.stat(dir) === null) return null;
    const before = await this.info(uuid);
    if (before?.foreign) return before;
    const claim = this.claim(uuid);
    if (!claim) return null;
    try {
      const info = await this.info(uuid);
      const changed = info && change(info);
      if (!changed || info.foreign) return info;
      const path = join(dir, INFO);
      await repairDurable(path, this.#fs);
      const document = new DurableDocument(path, { fs: this.#fs, there: true });
      this.#changing(uuid);
      document.replace(sealedInfo(changed, this.dataDir, this.#seal(uuid)));
      const replacement = await document.sync();
      await syncDirectory(dir, this.#fs);
      document.settle(replacement);
      return changed;
    } finally {
      claim.release({ remove: true });
    }
  }

  /**
   * Returns the runs that these kernels left: open and suspended ones, children of a run that may be one of them, and
   * unreadable ones. Foreign and copied records are left out: they name kernels of another user, or of the original.
   */
  async leftBy(kernels: ReadonlySet<string>): Promise<Survey> {
    const index = await this.index();
    const { rows, damaged } = await index.list();
    const left = rows.filter(
      ({ kernel, ended_at_ms, state, parent_uuid, foreign, moved_from }) =>
        !foreign &&
        moved_from === undefined &&
        kernels.has(kernel) &&
        (ended_at_ms === null || state === "suspended" || parent_uuid !== null),
    );
    return { runs: await index.infos(left), damaged };
  }

  /** Returns the absolute folder of a run, which need not exist. Fails with INVALID when `uuid` is not a UUID. */
  dir(uuid: string): string {
    if (!UUID.test(uuid)) {
      throw new SyscallError("INVALID", `Expected a run's UUID, got ${JSON.stringify(uuid)}.`);
    }
    return join(this.#steps, uuid);
  }

  /** Returns the readable runs, oldest first. `survey` also names the unreadable ones. */
  async list(): Promise<ProcInfo[]> {
    return (await this.survey()).runs;
  }

  async survey(): Promise<Survey> {
    const index = await this.index();
    const { rows, damaged } = await index.list();
    return { runs: await index.infos(rows), damaged };
  }

  /** What listings read. Made on first use: most programs list no runs. */
  async index(): Promise<RunLists> {
    return this.#lists?.() ?? this.ownIndex();
  }

  /** The index in this thread. `keepOpen`: the caller closes it. */
  ownIndex(o: { keepOpen?: boolean } = {}): Promise<RunIndex> {
    this.#index ??= this.#openIndex(o);
    return this.#index;
  }

  async #openIndex({ keepOpen }: { keepOpen?: boolean }): Promise<RunIndex> {
    const { RunIndex } = await import("./run-index.ts");
    return new RunIndex({
      dataDir: this.dataDir,
      fs: this.#fs,
      seal: this.#key.sealOf(`index ${this.dataDir}`),
      uuids: () => this.#uuids(),
      runDir: (uuid) => this.dir(uuid),
      info: (uuid) => this.info(uuid),
      keepOpen,
    });
  }

  /**
   * Reads a run's process record; null when there is no such run. `foreign` is set when this user's Rnix did not write
   * it, `moved_from` when it was written in another folder. Fails with INVALID when it is damaged or another run's.
   */
  async info(uuid: string): Promise<ProcInfo | null> {
    const { ProcInfo, RecordedDataDir } = await schemas();
    const what = `${INFO} of run ${uuid}`;
    const seal = this.#seal(uuid);
    const info = await readDurable(
      join(this.dir(uuid), INFO),
      (text): ProcInfo => {
        const { foreign: _foreign, moved_from: _movedFrom, ...said } = parseDocument(ProcInfo, text, what);
        if (!seal.isSealed(INFO, text)) return { ...said, foreign: true };
        return located(said, parseDocument(RecordedDataDir, text, what).data_dir, this.dataDir);
      },
      this.#fs,
    );
    if (info === null || info.uuid === uuid) return info;
    throw new SyscallError(
      "INVALID",
      `${this.dir(uuid)} holds the record of run ${info.uuid}: it was copied or renamed. Rename the folder to that UUID, or remove it.`,
    );
  }

  async meta(uuid: string): Promise<(ProcessMeta & { foreign?: true }) | null> {
    const { ProcessMeta } = await schemas();
    const seal = this.#seal(uuid);
    return readDurable(
      join(this.dir(uuid), META),
      (text) => {
        const meta = parseDocument(ProcessMeta, text, `${META} of run ${uuid}`);
        return seal.isSealed(META, text) ? meta : { ...meta, foreign: true as const };
      },
      this.#fs,
    );
  }

  /** Returns the UUIDs that begin with `prefix`, oldest first. */
  async find(prefix: string): Promise<string[]> {
    const wanted = prefix.toLowerCase();
    return (await this.#uuids()).filter((uuid) => uuid.startsWith(wanted));
  }

  /** Finished steps by line. */
  async steps(uuid: string, page: Page = {}): Promise<LogPage<StepRecord>> {
    return this.#log(uuid, STEPS, (await schemas()).StepRecord, page);
  }

  /** Syscall events by line. */
  async events(uuid: string, page: Page = {}): Promise<LogPage<SyscallEventWire>> {
    return this.#log(uuid, EVENTS, (await schemas()).SyscallEventWire, page);
  }

  /** What the run changed in files, and what was taken back, in order. */
  async changes(uuid: string): Promise<LogPage<ChangeLine>> {
    const { ChangeLine } = await import("../changes/change-log.ts");
    return this.#log(uuid, CHANGES, ChangeLine, { limit: Number.MAX_SAFE_INTEGER });
  }

  /** Records an undo beside the run. The caller has claimed the run, or its process is of this kernel. */
  async addChange(uuid: string, draft: ChangeDraft): Promise<void> {
    this.#requireNoLink(["steps"]);
    requirePlainRun(this.dir(uuid), this.#fs);
    const log = new AppendLog(join(this.dir(uuid), CHANGES), `${CHANGES} of run ${uuid}`, { fs: this.#fs });
    log.append(sealedChange(draft, this.#seal(uuid)));
    await log.sync();
  }

  /** The contents of files before and after the run's changes. */
  objects(uuid: string, maxBytes = DEFAULT_UNDO_BYTES): ObjectStore {
    return new ObjectStore({ dir: this.dir(uuid), fs: this.#fs, maxBytes });
  }

  /** Reads the journal of the open step. Entries of a recorded step are ignored. */
  async journal(uuid: string): Promise<Journal> {
    const { records, recorded, damaged, damagedLines, torn, foreign } = await this.#journal(uuid);
    return { entries: openStep(records, recorded), damaged, damagedLines, torn, foreign };
  }

  /** Reads all entries, and the number of the last recorded step: 0 when there is none. */
  async #journal(uuid: string): Promise<LogPage<JournalEntry> & { recorded: number }> {
    const { JournalEntry } = await schemas();
    const page = await this.#log(uuid, JOURNAL, JournalEntry, { limit: Number.MAX_SAFE_INTEGER });
    return { ...page, recorded: page.records.length === 0 ? 0 : await this.#lastStep(uuid) };
  }

  /** Checks a result beside the run, content included. */
  async checkBlob(uuid: string, ref: BlobRef): Promise<BlobStatus> {
    return checkBlob(this.#fs, this.dir(uuid), ref, { whole: true });
  }

  /** Reads a result beside the run. Fails with INVALID when it is missing or has changed. */
  readBlob(uuid: string, ref: BlobRef): Promise<Uint8Array> {
    return readBlob(this.#fs, this.dir(uuid), ref);
  }

  /** Whether a run may have unread inbox entries: an inbox without them is emptied when its run ends. */
  hasInbox(uuid: string): boolean {
    return (this.#size(uuid, INBOX) ?? 0) > 0;
  }

  /** Reads the unread inbox entries of a run. Changes nothing. */
  async inbox(uuid: string): Promise<Inbox> {
    const { InboxLine } = await schemas();
    const lines = await this.#log(uuid, INBOX, InboxLine, { limit: Number.MAX_SAFE_INTEGER });
    const { damaged, damagedLines, torn, foreign } = lines;
    const faults = { damaged, damagedLines, torn, foreign };
    const bytes = this.#size(uuid, INBOX);
    if (bytes === null) return { ...unreadMessages([], [], 0), inOpenStep: [], ...faults };
    const acknowledged: number[] = [];
    for await (const record of this.#everyStep(uuid)) acknowledged.push(...acknowledgedBy(record));
    const rest = unreadMessages(lines.records, acknowledged, bytes);
    const delivered = deliveredBy((await this.journal(uuid)).entries);
    const inOpenStep = rest.unread.map(({ seq }) => seq).filter((seq) => delivered.has(seq));
    return { ...rest, inOpenStep, ...faults };
  }

  /** Removes a run and everything beside it. The run must have ended. */
  async remove(uuid: string): Promise<void> {
    this.#requireNoLink(["steps"]);
    await removeAll(this.dir(uuid), `remove run ${uuid}`);
  }

  /** Returns when a file was last made or removed in a run's folder; null when there is no folder. */
  folderTime(uuid: string): number | null {
    return this.#fs.stat(this.dir(uuid))?.mtimeMs ?? null;
  }

  /** Returns the collector of this data folder. */
  async collected(): Promise<CollectedRuns> {
    const { CollectedRuns } = await import("./collected-runs.ts");
    return new CollectedRuns({
      dataDir: this.dataDir,
      fs: this.#fs,
      runDir: (uuid) => this.dir(uuid),
      claim: (uuid) => this.claim(uuid),
      info: (uuid) => this.info(uuid),
      meta: (uuid) => this.meta(uuid),
    });
  }

  /** Returns an error when the path to the runs leads through a link, in which case no run is read; otherwise null. */
  linked(): SyscallError | null {
    const link = linkIn(this.dataDir, ["steps"], this.#fs);
    return link === null ? null : isLink(link);
  }

  #seal(uuid: string): RecordSeal {
    return this.#key.sealOf(`run ${uuid}`);
  }

  #requireNoLink(parts: readonly string[]): void {
    const link = linkIn(this.dataDir, parts, this.#fs);
    if (link !== null) throw isLink(link);
  }

  async #uuids(): Promise<string[]> {
    if (this.linked() !== null) return [];
    const names = await namesIn(this.#fs, this.#steps, "list the runs");
    return names.filter((name) => UUID.test(name)).sort();
  }

  #log<T>(uuid: string, file: string, schema: z.ZodType<T>, page: Page): Promise<LogPage<T>> {
    const seal = this.#seal(uuid);
    return readLog(this.#fs, join(this.dir(uuid), file), {
      after: page.after ?? 0,
      limit: page.limit ?? DEFAULT_PAGE,
      // No decision depends on the trace, so its lines have no MAC.
      isOwn: file === EVENTS ? undefined : (line) => seal.isSealed(file, line),
      decode: (value, line) => {
        checkSchemaVersion(value, `Line ${line} of ${file} of run ${uuid}`);
        return schema.parse(value);
      },
    });
  }

  /** Removes entries that could be mistaken for the next step. Returns true when the journal is not empty. */
  async #tidyJournal(uuid: string): Promise<boolean> {
    const path = join(this.dir(uuid), JOURNAL);
    const { records, recorded, foreign } = await this.#journal(uuid);
    // Rewritten lines would count as own.
    if (foreign > 0) throw foreignLines(uuid, JOURNAL, foreign);
    if (isMixed(records, recorded)) {
      const seal = this.#seal(uuid);
      const lines = openStep(records, recorded).map((entry) => `${seal.seal(JOURNAL, versioned(entry))}\n`);
      await replaceDocument(path, lines.join(""), this.#fs);
    }
    return (await countLines(this.#fs, path, `${JOURNAL} of run ${uuid}`)) > 0;
  }

  /** Returns the highest step in steps.jsonl; 0 when there is none. */
  async #lastStep(uuid: string): Promise<number> {
    let last = 0;
    for await (const record of this.#everyStep(uuid)) last = Math.max(last, record.step);
    return last;
  }

  /** Returns the size of a file in bytes; null when there is none. */
  #size(uuid: string, file: string): number | null {
    const path = join(this.dir(uuid), file);
    try {
      return withFile(this.#fs, path, "read", (fd) => this.#fs.size(fd));
    } catch (error) {
      if (errno(error) === "ENOENT") return null;
      throw ioError(error, `read ${file} of run ${uuid}`, path);
    }
  }

  async *#everyStep(uuid: string): AsyncGenerator<StepRecord> {
    for (let after = 0; ; ) {
      const page = await this.steps(uuid, { after, limit: 100 });
      yield* page.records;
      if (page.next === after) return;
      after = page.next;
    }
  }
}

/** Loads the schemas on first read: to build them takes longer than to write a whole run. */
function schemas(): Promise<typeof import("./schema.ts")> {
  return import("./schema.ts");
}

function noSuchRun(uuid: string): SyscallError {
  return new SyscallError("NOT_FOUND", `There is no run ${uuid} here. \`rnix ps -a\` lists all runs.`);
}
