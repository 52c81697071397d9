/** Removes ended runs beyond the limits: at once, or from time to time. */

import { dirname, join } from "node:path";
import { z } from "zod";
import type { Clock } from "../../lib/clock.ts";
import { expected } from "../../lib/error-detail.ts";
import type { Logger } from "../../lib/logger.ts";
import { readRegularSync } from "../../lib/regular-file.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { CollectedLine, CollectReport } from "../../protocol/methods.ts";
import { makeFolder, replaceDocumentNow } from "../../store/files/document.ts";
import { FileLock } from "../../store/files/file-lock.ts";
import { TimeSlices } from "../../store/files/time-slice.ts";
import {
  beyondLimits,
  type Candidate,
  neededRuns,
  type RetentionLimits,
} from "../../store/runs/retention.ts";
import type { DamagedRun, RunRow } from "../../store/runs/run-lists.ts";
import type { RunStore } from "../../store/runs/run-store.ts";

/** Minimum age of a folder without a record before it is removed: a new run has no record yet. */
const MIN_EMPTY_AGE_MS = 24 * 60 * 60 * 1000;
/** Maximum runs named in a report; all are counted. */
const MAX_NAMED = 1000;

interface CollectorPorts {
  /** The data folders of all known projects. */
  dataDirs(): string[];
  open(dataDir: string): RunStore;
  /** Whether the kernel with this id is alive: its lock is held. */
  kernelAlive(kernelId: string): boolean;
  limits(): Promise<RetentionLimits>;
  /** The lock of the one collection at a time, for all kernels of this user. */
  lockPath: string;
  /** When the last one was. */
  lastPath: string;
  clock: Clock;
}

interface CollectOptions {
  dryRun?: boolean;
  /** At most this many runs; the rest is left to the next collection. */
  most?: number;
  /** If aborted, the collection ends after the run that it is removing. */
  signal?: AbortSignal;
}

interface DataFolder {
  records: RunStore;
  rows: RunRow[];
  foreign: number;
  damaged: DamagedRun[];
}

interface RunToCollect extends CollectedLine {
  records: RunStore;
}

/**
 * Garbage collection: removes ended runs beyond the limits of config.yaml, but never live or suspended runs or runs
 * that they need.
 */
export class Collector {
  readonly #ports: CollectorPorts;

  constructor(ports: CollectorPorts) {
    this.#ports = ports;
  }

  /** Fails with UNAVAILABLE while another collection runs. */
  async collect({
    dryRun = false,
    most = Number.POSITIVE_INFINITY,
    signal,
  }: CollectOptions = {}): Promise<CollectReport> {
    const lock = dryRun ? undefined : this.#lock();
    try {
      const folders = await this.#look();
      const needed = neededRuns(
        folders.flatMap(({ rows }) => rows),
        (row) => this.#isOpen(row),
      );
      const found = await this.#beyond(folders, needed);
      const report: CollectReport = {
        dry_run: dryRun,
        collected: [],
        runs: 0,
        bytes: 0,
        kept: folders.reduce((sum, { rows }) => sum + rows.length, 0),
        needed: needed.size,
        left: Math.max(0, found.length - most),
        problems: problemsOf(folders),
      };
      for (const doomed of found.slice(0, most)) {
        if (signal?.aborted) break;
        if (dryRun || (await this.#remove(doomed, report))) count(report, doomed);
      }
      if (!dryRun) await this.#sweep(folders);
      return report;
    } finally {
      lock?.release({ remove: true });
    }
  }

  #lock(): FileLock {
    const lock = FileLock.tryAcquire(this.#ports.lockPath);
    if (lock) return lock;
    throw new SyscallError("UNAVAILABLE", "Another collection is running. Try again when it has finished.", {
      retryable: true,
    });
  }

  async #look(): Promise<DataFolder[]> {
    const folders: DataFolder[] = [];
    for (const dataDir of this.#ports.dataDirs()) {
      const records = this.#ports.open(dataDir);
      const { rows, damaged } = await (await records.index()).list();
      const foreign = rows.filter((row) => row.foreign).length;
      folders.push({ records, rows: rows.filter((row) => !row.foreign), foreign, damaged });
    }
    return folders;
  }

  /**
   * The run is live, or suspended, or was cut off and can be resumed. A chat that its user has left counts as ended, or
   * every conversation would stay for ever.
   */
  #isOpen({ state, chat, ended_at_ms, kind, kernel, suspended }: RunRow): boolean {
    if (state === "suspended") return !chat || suspended?.wake.on !== "message";
    return ended_at_ms === null && (kind === "agent" || this.#ports.kernelAlive(kernel));
  }

  async #beyond(folders: readonly DataFolder[], needed: ReadonlySet<string>): Promise<RunToCollect[]> {
    const limits = await this.#ports.limits();
    const found: RunToCollect[] = [];
    for (const { records, rows, damaged } of folders) {
      const collected = await records.collected();
      const slices = new TimeSlices();
      const candidates: (Candidate & RunRow)[] = [];
      for (const row of rows.filter(({ uuid }) => !needed.has(uuid))) {
        await slices.pause();
        const bytes = await collected.diskBytes(row.uuid);
        candidates.push({ ...row, endedAtMs: endOf(row), bytes });
      }
      const byUuid = new Map(candidates.map((candidate) => [candidate.uuid, candidate]));
      for (const { uuid, why } of beyondLimits(candidates, limits, this.#ports.clock.now())) {
        const candidate = byUuid.get(uuid);
        if (!candidate) continue;
        const { pid, project, ended_at_ms, bytes } = candidate;
        found.push({ uuid, pid, project, ended_at_ms, why, bytes, records });
      }
      for (const { uuid } of damaged.filter((one) => this.#isLeftBehind(one, records))) {
        found.push({ uuid, pid: null, project: null, ended_at_ms: null, why: "empty", bytes: 0, records });
      }
    }
    return found;
  }

  #isLeftBehind({ uuid, error }: DamagedRun, records: RunStore): boolean {
    if (error.code !== "NOT_FOUND") return false;
    const changed = records.folderTime(uuid);
    return changed !== null && this.#ports.clock.now() - changed > MIN_EMPTY_AGE_MS;
  }

  /** Read again, because the run may have been resumed meanwhile. */
  async #remove({ uuid, why, records, ended_at_ms }: RunToCollect, report: CollectReport): Promise<boolean> {
    const ts = new Date(this.#ports.clock.now()).toISOString();
    const mayGo = (info: RunRow | null): boolean =>
      info === null ? why === "empty" : info.ended_at_ms === ended_at_ms && !this.#isOpen(info);
    try {
      return await (await records.collected()).collect(uuid, { why, ts, mayGo });
    } catch (thrown) {
      report.problems.push({ path: records.dir(uuid), message: expected(thrown).message });
      return false;
    }
  }

  /** The last part of a collection. Writes its time, from which the automatic collection computes the next one. */
  async #sweep(folders: readonly DataFolder[]): Promise<void> {
    for (const { records } of folders.filter((folder) => !folder.records.linked()))
      await (await records.collected()).sweep();
    const { lastPath, clock } = this.#ports;
    makeFolder(dirname(lastPath));
    replaceDocumentNow(lastPath, JSON.stringify({ v: 1, at_ms: clock.now() }));
  }
}

function endOf({ ended_at_ms, created_at_ms }: RunRow): number {
  return ended_at_ms ?? created_at_ms;
}

function count(report: CollectReport, { records: _, ...line }: RunToCollect): void {
  if (report.collected.length < MAX_NAMED) report.collected.push(line);
  report.runs++;
  report.bytes += line.bytes;
  if (line.why !== "empty") report.kept--;
}

function problemsOf(folders: readonly DataFolder[]): CollectReport["problems"] {
  return folders.flatMap(({ records, damaged, foreign }) => {
    const linked = records.linked();
    return [
      ...(linked ? [{ path: records.dataDir, message: linked.message }] : []),
      ...(foreign > 0 ? [{ path: join(records.dataDir, "steps"), message: foreignText(foreign) }] : []),
      ...damaged.map(({ uuid, error }) => ({ path: records.dir(uuid), message: error.message })),
    ];
  });
}

function foreignText(count: number): string {
  return `${count === 1 ? "a run here is" : `${count} runs here are`} foreign: your Rnix did not write the records, and removes none of them.`;
}

/** Delay after the start: the first client comes first. */
const FIRST_MS = 20_000;
/** Milliseconds between two rounds of one collection. */
const ROUND_MS = 5_000;
/** Runs collected in one round. */
const ROUND = 200;

interface AutoCollectPorts {
  collector: Pick<Collector, "collect">;
  /** The file with the time of the last collection by any rnix. */
  lastPath: string;
  /** null: never. */
  everyMs: number | null;
  clock: Clock;
  logger: Logger;
}

/** Schedules the daemon's garbage collection: rarely, in small rounds, and never during its start. */
export class GcSchedule {
  readonly #ports: AutoCollectPorts;
  readonly #ending = new AbortController();
  #timer: { cancel(): void } | undefined;
  #round: Promise<void> = Promise.resolve();

  constructor(ports: AutoCollectPorts) {
    this.#ports = ports;
    if (ports.everyMs !== null) this.#in(Math.max(FIRST_MS, this.#untilDue(ports.everyMs)));
  }

  /** Resolves when the current run is removed. */
  async close(): Promise<void> {
    this.#ending.abort();
    this.#timer?.cancel();
    await this.#round;
  }

  #in(ms: number): void {
    if (this.#ending.signal.aborted) return;
    this.#timer = this.#ports.clock.timer(ms, () => {
      this.#round = this.#collect();
    });
  }

  /** It never rejects: a failure is logged and retried the next time. */
  async #collect(): Promise<void> {
    const { collector, logger, everyMs } = this.#ports;
    let next = everyMs ?? 0;
    try {
      const { runs, bytes, left, problems } = await collector.collect({
        most: ROUND,
        signal: this.#ending.signal,
      });
      if (runs > 0) logger.info("gc", `collected ${runs} old runs, ${bytes} bytes`);
      if (left > 0 && runs > 0) next = ROUND_MS;
      if (problems.length > 0)
        logger.warn("gc", `${problems.length} runs can't be read: rnix gc --dry-run names them`);
    } catch (error) {
      logger.warn(
        "gc",
        `old runs could not be collected: ${error instanceof SyscallError ? error.message : String(error)}`,
      );
    }
    this.#in(next);
  }

  #untilDue(everyMs: number): number {
    const last = lastOf(this.#ports.lastPath);
    if (last === null) return 0;
    // If the clock was set back, wait for one interval at most.
    return Math.min(everyMs, last + everyMs - this.#ports.clock.now());
  }
}

/** One line of JSON. */
const MAX_BYTES = 4096;
const Last = z.object({ at_ms: z.number() });

/** null: not known, so it is due. */
function lastOf(path: string): number | null {
  try {
    return Last.parse(JSON.parse(readRegularSync(path, MAX_BYTES).toString())).at_ms;
  } catch {
    return null;
  }
}
