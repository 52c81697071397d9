/** The runs of one data folder: make, list, claim, fork and remove them. */

import { dirname, join } from "node:path";
import { SyscallError } from "../../plugin/index.ts";
import type { RunState } from "../../run/state.ts";
import type { ChangeDraft } from "../changes/change-log.ts";
import { CHANGES, ObjectStore } from "../changes/object-store.ts";
import { DailySpending } from "../daily-spending.ts";
import { AppendLog } from "../files/append-log.ts";
import { prepareDataDir, requireNoLink } from "../files/data-dir.ts";
import { DurableDocument, makeFolder, removeAll, repairDurable, syncDirectory } from "../files/document.ts";
import type { FileLock } from "../files/file-lock.ts";
import type { FsPort } from "../files/fs-port.ts";
import type { IndexFile } from "../files/index-file.ts";
import { countIfReadable } from "../files/read-log.ts";
import { ChangedRuns } from "./changed-runs.ts";
import type { CollectedRuns } from "./collected-runs.ts";
import { foreignLines, requireOwn } from "./own-run.ts";
import type { RecordKey } from "./record-key.ts";
import { EVENTS, INBOX, INFO, type LineNumbers, META, sealedInfo, withState } from "./run-files.ts";
import { claimantOf, claimRun, requireClaimable, requirePlainRun } from "./run-folder.ts";
import type { RunIndex } from "./run-index.ts";
import type { DamagedRun, RunLists } from "./run-lists.ts";
import { RunRecords } from "./run-records.ts";
import { DEFAULT_UNDO_BYTES, type RunLimits, RunWriter, type RunWriterOptions } from "./run-writer.ts";
import type { ProcInfo, StateEvent, StepRecord } from "./schema.ts";

export { RunWriter } from "./run-writer.ts";

interface Survey {
  /** Every run whose record could be read, oldest first. */
  runs: ProcInfo[];
  /** Runs that could not be read, and why: a newer schema, a damaged file, or no record. */
  damaged: DamagedRun[];
}

/** The reading methods of a store. */
export type RunReader = Pick<RunStore, keyof RunRecords | "index" | "collected" | "writer" | "claimant">;

/** The live and ended runs of one data folder: `steps/<uuid>/`. */
export class RunStore extends RunRecords {
  #index: Promise<RunIndex> | undefined;
  readonly #lists: (() => Promise<RunLists>) | undefined;
  #dailySpending: DailySpending | undefined;
  readonly #writers = new Map<string, RunWriter>();
  /** This store has made or reopened a run. */
  #began = false;

  /**
   * `key`: the key of the user whose records count as own. `lists`: reads the runs for listings elsewhere; by default
   * this thread does.
   */
  constructor(
    dataDir: string,
    fs?: FsPort,
    key?: RecordKey,
    lists: (() => Promise<RunLists>) | undefined = undefined,
  ) {
    super(dataDir, fs, key);
    this.#lists = lists;
  }

  get dailySpending(): DailySpending {
    this.#dailySpending ??= new DailySpending(this.dataDir, this.fs);
    return this.#dailySpending;
  }

  /** Makes the folder of a new run, and the data folder if missing. Fails with INVALID when the UUID exists. */
  create(uuid: string, limits?: RunLimits): RunWriter {
    const dir = this.dir(uuid);
    requireNoLink(this.dataDir, ["steps"], this.fs);
    const made = prepareDataDir(this.dataDir, this.fs);
    if (!makeFolder(dir, this.fs)) {
      throw new SyscallError("INVALID", `Run ${uuid} already exists: expected a new UUID.`);
    }
    return this.#writer(uuid, { limits, above: this.#above(made) });
  }

  #writer(
    uuid: string,
    o: Omit<RunWriterOptions, "uuid" | "dir" | "seal" | "fs" | "changing" | "closed">,
  ): RunWriter {
    const changing = (): void => this.#changing(uuid);
    const closed = (): void => {
      if (this.#writers.get(uuid) === writer) this.#writers.delete(uuid);
    };
    const own = { uuid, dir: this.dir(uuid), seal: this.sealOf(uuid), fs: this.fs };
    const writer = new RunWriter({ ...o, ...own, changing, closed });
    this.#writers.set(uuid, writer);
    return writer;
  }

  /** The writer of a run whose records have not ended; undefined when this store does not write it. */
  writer(uuid: string): Pick<RunWriter, "last" | "watch"> | undefined {
    return this.#writers.get(uuid);
  }

  /** The counter of a run that is not being written. */
  async #numbers(uuid: string, states: readonly StateEvent[]): Promise<LineNumbers> {
    const { recordedNumbers } = await import("./reopened-files.ts");
    return recordedNumbers(this.fs, this.dir(uuid), states);
  }

  /** Returns the folders above a run that may not be durable yet. */
  #above(made: boolean): string[] {
    const above = [this.stepsDir];
    // Synced once per store: an earlier run may have made these folders and been killed before it synced them.
    if (!this.#began) above.push(this.dataDir, dirname(this.dataDir));
    if (made) above.push(dirname(dirname(this.dataDir)));
    this.#began = true;
    return above;
  }

  /**
   * Opens an ended run for writing. The caller has made sure that no other kernel holds it. `known`: its state, if the
   * caller has read it meanwhile. Fails with PERMISSION for a foreign run, and with INVALID where its files would be
   * written elsewhere.
   */
  async reopen(uuid: string, limits?: RunLimits, known?: RunState): Promise<RunWriter> {
    const dir = this.dir(uuid);
    const info = await this.info(uuid);
    if (info === null) throw noSuchRun(uuid);
    requireOwn(info);
    requireNoLink(this.dataDir, ["steps"], this.fs);
    requirePlainRun(dir, this.fs);
    for (const file of [INFO, META]) await repairDurable(join(dir, file), this.fs);
    const taken = await countIfReadable(this.fs, join(dir, EVENTS), `${EVENTS} of run ${uuid}`);
    const { tidyJournal } = await import("./reopened-files.ts");
    const run = { uuid, dir, fs: this.fs, seal: this.sealOf(uuid) };
    const lines = await this.journalLines(uuid);
    // All steps are read once, and none for a run without a journal and an inbox.
    const state = known ?? (lines.records.length === 0 ? undefined : await this.state({ uuid }));
    const journal = await tidyJournal(run, lines, state?.recorded ?? 0);
    const inbox = await this.inbox(uuid, state);
    if (inbox.foreign > 0) throw foreignLines(uuid, INBOX, inbox.foreign);
    // The process that made it may have been killed before its first sync.
    const above = this.#above(!this.#began);
    const states = await this.states(uuid);
    const numbers = await this.#numbers(uuid, states);
    return this.#writer(uuid, { limits, above, taken, ...journal, inbox, numbers, states });
  }

  /** Notifies listings that a record changes which they would not look at. */
  #changing(uuid: string): void {
    this.#changed.add(uuid);
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
      await copyForkFiles(record, { ...origin, dir: this.dir(origin.uuid), rootDir }, this.fs);
      if ((await this.info(origin.uuid)) === null) throw noSuchRun(origin.uuid);
      return record;
    } catch (error) {
      await this.remove(uuid);
      throw error;
    }
  }

  /**
   * Claims a run across all kernels before it is resumed; null when another process has claimed it. The claim is held
   * until the run's record names its new kernel, and released with `remove`.
   */
  claim(uuid: string): FileLock | null {
    requireNoLink(this.dataDir, ["steps"], this.fs);
    requireClaimable(this.dir(uuid), this.fs);
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
    if (this.fs.stat(dir) === null) return null;
    const before = await this.info(uuid);
    if (before?.foreign) return before;
    const claim = this.claim(uuid);
    if (!claim) return null;
    try {
      const info = await this.info(uuid);
      const changed = info && change(info);
      if (!changed || info.foreign) return info;
      const path = join(dir, INFO);
      await repairDurable(path, this.fs);
      const document = new DurableDocument(path, { fs: this.fs, there: true });
      this.#changing(uuid);
      const before = await this.states(uuid);
      const numbers = await this.#numbers(uuid, before);
      const states = withState(before, changed, () => numbers.take());
      document.replace(sealedInfo(changed, this.dataDir, this.sealOf(uuid), states));
      const replacement = await document.sync();
      await syncDirectory(dir, this.fs);
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
    return this.#lists ? this.#lists() : this.ownIndex();
  }

  /** The index in this thread. `open`: a file that its owner closes. */
  ownIndex(open?: IndexFile): Promise<RunIndex> {
    this.#index ??= this.#openIndex(open);
    return this.#index;
  }

  async #openIndex(open?: IndexFile): Promise<RunIndex> {
    const { RunIndex, indexFileOf } = await import("./run-index.ts");
    const file = open ?? indexFileOf(this.key, this.dataDir);
    return new RunIndex({
      records: this,
      fs: this.fs,
      file,
      changed: this.#changed,
      keepOpen: open !== undefined,
    });
  }

  get #changed(): ChangedRuns {
    return new ChangedRuns(this.key.indexFolder, this.dataDir, this.fs);
  }

  /** Records an undo beside the run. The caller has claimed the run, or its process is of this kernel. */
  async addChange(uuid: string, draft: ChangeDraft): Promise<void> {
    requireNoLink(this.dataDir, ["steps"], this.fs);
    requirePlainRun(this.dir(uuid), this.fs);
    const writer = this.#writers.get(uuid);
    if (writer) {
      writer.change(draft);
      return writer.sync();
    }
    const log = new AppendLog(join(this.dir(uuid), CHANGES), `${CHANGES} of run ${uuid}`, { fs: this.fs });
    const numbers = await this.#numbers(uuid, await this.states(uuid));
    const line = numbers.line(CHANGES, numbers.take(), draft);
    log.append(this.sealOf(uuid).seal(CHANGES, JSON.stringify(line)));
    await log.sync();
  }

  /** The contents of files before and after the run's changes. */
  objects(uuid: string, maxBytes = DEFAULT_UNDO_BYTES): ObjectStore {
    return new ObjectStore({ dir: this.dir(uuid), fs: this.fs, maxBytes });
  }

  /** Removes a run and everything beside it. The run must have ended. */
  async remove(uuid: string): Promise<void> {
    requireNoLink(this.dataDir, ["steps"], this.fs);
    this.#writers.delete(uuid);
    await removeAll(this.dir(uuid), `remove run ${uuid}`);
  }

  /** Returns the collector of this data folder. */
  async collected(): Promise<CollectedRuns> {
    const { CollectedRuns } = await import("./collected-runs.ts");
    return new CollectedRuns(this, { fs: this.fs, claim: (uuid) => this.claim(uuid) });
  }
}

function noSuchRun(uuid: string): SyscallError {
  return new SyscallError("NOT_FOUND", `There is no run ${uuid} here. \`rnix ps -a\` lists all runs.`);
}
