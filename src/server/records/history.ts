/** Reads the runs of all projects. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { orphanedRecord } from "../../kernel/resume/orphaned-record.ts";
import type { ProcInfo } from "../../kernel/types.ts";
import { BoundedMap } from "../../lib/caches.ts";
import { expected } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { CollectedRun } from "../../store/runs/collected-runs.ts";
import { UNITS } from "../../store/runs/run-files.ts";
import type { RunFilter, RunLists, RunRow } from "../../store/runs/run-lists.ts";
import { matchesFilter } from "../../store/runs/run-row.ts";
import type { RunReader } from "../../store/runs/run-store.ts";
import type { Wake } from "../../store/runs/schema.ts";
import { asSuspended, asUnreadable, type CrashedRun, readCrashedRun } from "./crashed-run.ts";
import type { Run } from "./recorded-run.ts";
import type { StepIndexes } from "./step-indexes.ts";

/** Maximum states of crashed runs in memory. */
const MAX_CRASHED_RUNS = 1000;

interface Listing extends Omit<RunFilter, "parent" | "pid"> {
  cwd?: string;
  /** A PID: they only grow. */
  after?: number;
  limit?: number;
  /** The last ones instead of the first ones; still by PID, ascending. */
  newest?: boolean;
  /** The kernel's live processes, which are newer than their records. */
  live?: () => readonly ProcInfo[];
}

/** Runs by UUID, so by the time of their spawn. */
interface RunsQuery extends RunFilter {
  /** A UUID. */
  after?: string;
  limit: number;
}

interface LastRun {
  cwd: string;
  /** The project's folder. Absent: of all projects, foreign runs too. */
  project?: string;
  /** The kernel's live processes, which are newer than their records. */
  live: () => readonly ProcInfo[];
  alive?: boolean;
}

interface Listed {
  runs: ProcInfo[];
  /** The number of runs on all pages together. */
  total: number;
  unreadable: { path: string; message: string }[];
}

interface ListEntry extends Pick<RunRow, "pid" | "uuid"> {
  /** Set for a run that is on disk only. */
  row?: RunRow;
  records?: RunReader;
}

interface HistoryPorts {
  /** The data folders of all known projects and, where `cwd` is given, of the project it lies in. */
  dataDirs(cwd?: string): string[];
  open(dataDir: string): RunReader;
  /** Whether the kernel with this id is alive: its lock is held. */
  kernelAlive(kernelId: string): boolean;
  /** The end of a run of this kernel whose last record the disk has not accepted. */
  unrecordedEnd?(uuid: string): ProcInfo | undefined;
}

/**
 * The runs on disk of all the user's projects. It only reads: a run whose kernel has died is shown as suspended at its
 * last step.
 */
export class History {
  readonly #ports: HistoryPorts;
  /** Cached states of runs whose kernel has died, which never change; by UUID, kernel and PID. */
  readonly #crashedRuns = new BoundedMap<string, CrashedRun>(MAX_CRASHED_RUNS);

  #stepIndexes: StepIndexes | undefined;

  constructor(ports: HistoryPorts) {
    this.#ports = ports;
  }

  /** The indexes of steps. Made on first use. */
  async stepIndexes(): Promise<StepIndexes> {
    const { StepIndexes } = await import("./step-indexes.ts");
    this.#stepIndexes ??= new StepIndexes();
    return this.#stepIndexes;
  }

  /** A page of the runs, by PID, ascending. A run that can't be read hides no other: it is named in `unreadable`. */
  async list({ cwd, after = 0, limit, newest, live, ...selection }: Listing = {}): Promise<Listed> {
    const before = new Set(live?.().map(({ uuid }) => uuid));
    const closed: { records: RunReader; rows: readonly RunRow[] }[] = [];
    const cutOff = new Map<string, ProcInfo>();
    const unreadable: Listed["unreadable"] = [];
    let total = 0;
    for (const records of this.#stores(cwd)) {
      const index = await records.index();
      const page = await index.page({ ...selection, after, limit, newest, except: [...before] });
      total += page.total;
      closed.push({ records, rows: page.rows });
      const open = page.open.filter(({ uuid }) => !before.has(uuid));
      for (const info of await this.#open(open, records)) cutOff.set(info.uuid, info);
      const linked = records.linked();
      if (linked) unreadable.push({ path: records.dataDir, message: linked.message });
      for (const { uuid, error } of page.damaged) {
        unreadable.push({ path: `${records.dataDir}/steps/${uuid}`, message: error.message });
      }
    }
    // Checked after the disk was read, because a process may have ended meanwhile.
    const held = new Map(live?.().map((info) => [info.uuid, info]));
    for (const uuid of before) {
      const ended = held.has(uuid) || cutOff.has(uuid) ? undefined : await this.byUuid(uuid, cwd);
      if (ended) cutOff.set(uuid, ended.info);
    }
    const known = [...new Map([...cutOff, ...held]).values()].filter((info) =>
      matchesFilter(info, selection),
    );
    const infos = new Map(known.map((info) => [info.uuid, info]));
    const left: ListEntry[] = known.filter(({ pid }) => pid > after).map(({ pid, uuid }) => ({ pid, uuid }));
    for (const { records, rows } of closed)
      for (const row of rows)
        if (!held.has(row.uuid) && !infos.has(row.uuid))
          left.push({ pid: row.pid, uuid: row.uuid, row, records });
    left.sort((a, b) => a.pid - b.pid);
    const page = newest ? left.slice(-(limit ?? left.length)) : left.slice(0, limit);
    for (const [uuid, info] of await this.#infos(page)) infos.set(uuid, info);
    const runs = page.flatMap(({ uuid }) => infos.get(uuid) ?? []);
    return { runs, total: total + known.length, unreadable };
  }

  async runs({ after, limit, ...filter }: RunsQuery): Promise<ProcInfo[]> {
    const found = new Map<string, ProcInfo>();
    for (const records of this.#stores(undefined)) {
      const index = await records.index();
      const { rows, open } = await index.page({ ...filter, after: after ?? "", limit });
      const { parent } = filter;
      const mayMatch = open.filter(
        ({ uuid, parent_uuid }) => uuid > (after ?? "") && (parent === undefined || parent_uuid === parent),
      );
      const infos = [...(await index.infos(rows)), ...(await this.#open(mayMatch, records))];
      for (const info of infos)
        if (matchesFilter(info, filter) && !found.has(info.uuid)) found.set(info.uuid, info);
    }
    return [...found.values()].sort((a, b) => (a.uuid < b.uuid ? -1 : 1)).slice(0, limit);
  }

  async #open(rows: readonly RunRow[], records: RunReader): Promise<ProcInfo[]> {
    const infos = await (await records.index()).infos(rows);
    return Promise.all(infos.map((info) => this.#truth(info, records)));
  }

  /**
   * The agent's run of this project that was started or resumed last, unless a parent started it. Foreign records do
   * not count. `alive`: a live one, if there is any.
   */
  async last({ cwd, project, live, alive }: LastRun): Promise<ProcInfo | undefined> {
    const counts = (run: Pick<RunRow, "kind" | "parent_uuid" | "project" | "foreign">): boolean =>
      run.kind === "agent" &&
      run.parent_uuid === null &&
      (project === undefined || (run.project === project && !run.foreign));
    let newest: (ListEntry & { row: RunRow }) | undefined;
    for (const records of this.#stores(cwd)) {
      const { rows } = await (await records.index()).list();
      for (const row of rows.filter(counts))
        if (newest === undefined || isLater(row, newest.row))
          newest = { pid: row.pid, uuid: row.uuid, row, records };
    }
    // Checked after the disk was read, because a process may have ended meanwhile.
    const own = live().filter(counts);
    const running = own
      .filter(({ ended_at_ms }) => ended_at_ms === null)
      .reduce<ProcInfo | undefined>((best, one) => (best && best.pid > one.pid ? best : one), undefined);
    if (running && (alive || newest === undefined || !isLater(newest.row, running))) return running;
    const held = newest && own.find(({ uuid }) => uuid === newest?.uuid);
    return held ?? (newest && (await this.#infos([newest])).get(newest.uuid));
  }

  /** The run that has this PID, or had it before it was resumed. */
  async byPid(pid: number, cwd?: string): Promise<Run | undefined> {
    return this.#first(cwd, async (records) => {
      const { rows, open } = await (await records.index()).page({ pid });
      const had = [...rows, ...open.filter((row) => row.pid === pid || row.earlier_pids.includes(pid))];
      const own = had.toSorted(
        (a, b) => Number(a.foreign ?? false) - Number(b.foreign ?? false) || (a.uuid < b.uuid ? -1 : 1),
      );
      const row = own.find((one) => one.pid === pid) ?? own[0];
      return row === undefined ? null : records.info(row.uuid);
    });
  }

  async byUuid(uuid: string, cwd?: string): Promise<Run | undefined> {
    return this.#first(cwd, (records) => records.info(uuid));
  }

  /** The run whose record has this background unit. */
  async byUnit(id: string): Promise<Run | undefined> {
    return this.#first(undefined, async (records) => {
      for (const uuid of (await records.find("")).toReversed()) {
        // Most runs have no units.
        if (!existsSync(join(records.dir(uuid), UNITS))) continue;
        const { records: lines } = await records.units(uuid);
        if (lines.some((line) => line.t === "started" && line.snapshot.id === id)) return records.info(uuid);
      }
      return null;
    });
  }

  /**
   * Returns the first match; copies and foreign records come after the run itself. So a foreign record with the same
   * UUID or PID never hides the user's own run. In the project of `cwd` a copy counts as the run.
   */
  async #first(
    cwd: string | undefined,
    find: (records: RunReader) => Promise<ProcInfo | null>,
  ): Promise<Run | undefined> {
    const found: Run[] = [];
    for (const [at, records] of this.#stores(cwd).entries()) {
      const info = await find(records);
      if (!info) continue;
      found.push({ info, records });
      const isHere = cwd !== undefined && at === 0;
      if (info.foreign || (info.moved_from !== undefined && !isHere)) continue;
      return { info: await this.#truth(info, records), records };
    }
    const run = found.find(({ info }) => !info.foreign) ?? found[0];
    return run && { info: await this.#truth(run.info, run.records), records: run.records };
  }

  /** The suspended runs that a waker resumes. Foreign runs and copies are left out: the original may exist, too. */
  async sleepers(): Promise<{ uuid: string; wake: Wake }[]> {
    const found: { uuid: string; wake: Wake }[] = [];
    for (const records of this.#stores(undefined)) {
      for (const { uuid, suspended } of await suspendedIn(await records.index()))
        if (suspended?.by_itself) found.push({ uuid, wake: suspended.wake });
    }
    return found;
  }

  /** The suspended runs that wait for an answer of a person. Foreign runs and copies are left out. */
  async asking(): Promise<ProcInfo[]> {
    const found: ProcInfo[] = [];
    for (const records of this.#stores(undefined)) {
      const index = await records.index();
      const rows = await suspendedIn(index);
      found.push(...(await index.infos(rows.filter(({ suspended }) => suspended?.wake.on === "answer"))));
    }
    return found;
  }

  childrenOf(uuid: string, limit: number): Promise<ProcInfo[]> {
    return this.runs({ parent: uuid, limit });
  }

  async find(prefix: string, cwd?: string): Promise<string[]> {
    const found = await Promise.all(this.#stores(cwd).map((records) => records.find(prefix)));
    return [...new Set(found.flat())];
  }

  async #infos(entries: readonly ListEntry[]): Promise<Map<string, ProcInfo>> {
    const found = new Map<string, ProcInfo>();
    const byStore = Map.groupBy(entries, ({ records }) => records);
    for (const [records, of] of byStore) {
      if (records === undefined) continue;
      const index = await records.index();
      const infos = await index.infos(of.flatMap(({ row }) => row ?? []));
      for (const info of infos) found.set(info.uuid, await this.#truth(info, records));
    }
    return found;
  }

  /** A collected run, by the prefix of its UUID or by its PID. */
  async collected(
    wanted: { prefix: string } | { pid: number },
    cwd?: string,
  ): Promise<CollectedRun | undefined> {
    const answers = ({ uuid, pid }: CollectedRun): boolean =>
      "pid" in wanted ? pid === wanted.pid : uuid.startsWith(wanted.prefix);
    for (const records of this.#stores(cwd)) {
      const found = await (await records.collected()).find(answers);
      if (found) return found;
    }
    return undefined;
  }

  #stores(cwd: string | undefined): RunReader[] {
    return this.#ports.dataDirs(cwd).map((dir) => this.#ports.open(dir));
  }

  /** The record of a crashed run is as old as its last signal: its steps show what followed. */
  async #truth(known: ProcInfo, records: RunReader): Promise<ProcInfo> {
    if (known.ended_at_ms !== null) return known;
    if (known.foreign) return asForeign(known, await readCrashedRun(known, records).catch(expected));
    const end = this.#ports.unrecordedEnd?.(known.uuid);
    if (end?.pid === known.pid) return end;
    // The last record of this run may have been written, after the disk refused it, since `known` was read.
    if (this.#ports.kernelAlive(known.kernel)) return (await records.info(known.uuid)) ?? known;
    const left = await orphanedRecord(records, known.uuid, (id) => this.#ports.kernelAlive(id));
    const info = left?.info ?? known;
    if (left?.held || info.ended_at_ms !== null) return info;
    // A resumed run may have been cut off again, by another kernel.
    const life = `${info.uuid} ${info.kernel} ${info.pid}`;
    const words = this.#crashedRuns.get(life) ?? (await readCrashedRun(info, records).catch(expected));
    if (words instanceof SyscallError) return asUnreadable(info, words);
    this.#crashedRuns.set(life, words);
    // The state that recovery will write.
    return asSuspended(info, words);
  }
}

/** Whether the run is alive is unknown here. */
function asForeign(info: ProcInfo, words: CrashedRun | SyscallError): ProcInfo {
  const shown = words instanceof SyscallError ? asUnreadable(info, words) : asSuspended(info, words);
  const message = "Your Rnix did not write its record, which says that it has not ended.";
  return { ...shown, error: { code: "PERMISSION", message } };
}

/** The user's own suspended runs, without copies. */
async function suspendedIn(index: Pick<RunLists, "page">): Promise<RunRow[]> {
  const { rows } = await index.page({ status: "suspended" });
  return rows.filter(
    ({ state, foreign, moved_from }) => state === "suspended" && !foreign && moved_from === undefined,
  );
}

type Life = Pick<RunRow, "pid" | "kernel" | "created_at_ms" | "ended_at_ms" | "earlier_pids">;

/**
 * Whether a run was started or resumed after another. Kernels that work at the same time take their PIDs from blocks,
 * so a PID says it only among the runs of one kernel.
 */
function isLater(a: Life, b: Life): boolean {
  return a.kernel === b.kernel ? a.pid > b.pid : begunMs(a) > begunMs(b);
}

/** When its present life began. When it was resumed is not in the index: at the latest when it ended. */
function begunMs({ earlier_pids, created_at_ms, ended_at_ms }: Life): number {
  return earlier_pids.length === 0 ? created_at_ms : (ended_at_ms ?? created_at_ms);
}
