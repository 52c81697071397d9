/** The part of a run's record that listings filter and sort by. */

import { z } from "zod";
import { ProcInfo } from "./schema.ts";

const RunRow = z.lazy(() =>
  ProcInfo.unwrap().pick({
    uuid: true,
    pid: true,
    earlier_pids: true,
    kind: true,
    state: true,
    agent: true,
    chat: true,
    project: true,
    parent_uuid: true,
    origin_uuid: true,
    created_at_ms: true,
    ended_at_ms: true,
    exit_code: true,
    exit_reason: true,
    kernel: true,
    suspended: true,
    foreign: true,
    moved_from: true,
  }),
);
export type RunRow = z.infer<typeof RunRow>;

export function rowOf(info: ProcInfo): RunRow {
  return RunRow.parse(info);
}

/** State of a run's proc-info.json when it was read. */
export interface RecordFacts {
  size: number;
  mtimeMs: number;
  ino: number;
}

export function isSameRecord(a: RecordFacts, b: RecordFacts): boolean {
  return a.ino === b.ino && a.size === b.size && a.mtimeMs === b.mtimeMs;
}

/** Which runs a listing has. Absent fields take all. */
export interface RunFilter {
  project?: string;
  agent?: string;
  /** `suspended`, `done` or `failed`. */
  status?: string;
  /** The reason of the end, such as `completed` or `check_failed`. */
  verdict?: string;
  /** Of its spawn, in Unix ms. */
  since_ms?: number;
  until_ms?: number;
  parent?: string;
  /** Its PID, or one that it had before it was resumed. */
  pid?: number;
}

/** What is known of a run when it is filtered. Only a live one is known to be paused. */
type Filtered = RunRow & Partial<Pick<ProcInfo, "is_paused">>;

/** How a run stands. A run that is open on disk may be live, or cut off. */
export function statusOf({
  state,
  exit_code,
  is_paused,
}: Pick<Filtered, "state" | "exit_code" | "is_paused">) {
  if (state === "suspended") return "suspended";
  if (exit_code !== null) return exit_code === 0 ? "done" : "failed";
  return is_paused ? "paused" : "running";
}

/** Each filter: for a run in memory, and as a condition over the table of runs, with its value in place of `?`. */
export const RUN_FILTERS: Record<
  keyof RunFilter,
  { passes(run: Filtered, filter: RunFilter): boolean; sql: string }
> = {
  project: { passes: (run, { project }) => run.project === project, sql: "run.project = ?" },
  agent: { passes: (run, { agent }) => run.agent === agent, sql: "run.agent = ?" },
  status: { passes: (run, { status }) => statusOf(run) === status, sql: "run.status = ?" },
  verdict: { passes: (run, { verdict }) => run.exit_reason === verdict, sql: "run.verdict = ?" },
  since_ms: {
    passes: (run, { since_ms = 0 }) => run.created_at_ms >= since_ms,
    sql: "run.created_at_ms >= ?",
  },
  until_ms: { passes: (run, { until_ms = 0 }) => run.created_at_ms < until_ms, sql: "run.created_at_ms < ?" },
  parent: { passes: (run, { parent }) => run.parent_uuid === parent, sql: "run.parent = ?" },
  pid: {
    passes: (run, { pid = 0 }) => run.pid === pid || run.earlier_pids.includes(pid),
    sql: `run.id IN (WITH wanted (pid) AS (VALUES (?))
      SELECT id FROM wanted JOIN run USING (pid) UNION SELECT run FROM wanted JOIN earlier_pid USING (pid))`,
  },
};

const NAMES = Object.keys(RUN_FILTERS).filter((name): name is keyof RunFilter =>
  Object.hasOwn(RUN_FILTERS, name),
);

export function filtersIn(filter: RunFilter): (keyof RunFilter)[] {
  return NAMES.filter((name) => filter[name] !== undefined);
}

export function matchesFilter(run: Filtered, filter: RunFilter): boolean {
  return filtersIn(filter).every((name) => RUN_FILTERS[name].passes(run, filter));
}
