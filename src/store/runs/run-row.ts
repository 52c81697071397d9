/** The part of a run's record that listings filter and sort by. */

import type { z } from "zod";
import { ProcInfo } from "./schema.ts";

const RunRow = ProcInfo.pick({
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
});
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
  /** The UUID of its parent. */
  parent?: string;
  /** Its PID, or one that it had before it was resumed. */
  pid?: number;
}

/** How a run on disk stands. A run that is open on disk may be live, or cut off. */
export function statusOfRow({ state, exit_code }: Pick<RunRow, "state" | "exit_code">): string {
  if (state === "suspended") return "suspended";
  if (exit_code === null) return "running";
  return exit_code === 0 ? "done" : "failed";
}

export function matchesFilter(row: RunRow, filter: RunFilter): boolean {
  const { project, agent, status, verdict, since_ms, until_ms, parent, pid } = filter;
  return (
    (project === undefined || row.project === project) &&
    (agent === undefined || row.agent === agent) &&
    (status === undefined || statusOfRow(row) === status) &&
    (verdict === undefined || row.exit_reason === verdict) &&
    (since_ms === undefined || row.created_at_ms >= since_ms) &&
    (until_ms === undefined || row.created_at_ms < until_ms) &&
    (parent === undefined || row.parent_uuid === parent) &&
    (pid === undefined || row.pid === pid || row.earlier_pids.includes(pid))
  );
}
