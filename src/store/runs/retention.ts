/** Decides which ended runs exceed the retention limits. */

import type { RunRow } from "./run-row.ts";

/** Limits for ended runs; null: no limit. */
export interface RetentionLimits {
  /** Maximum time since the run's end, in ms. */
  retention_age: number | null;
  /** Maximum runs of each data folder; the newest stay. */
  retention_runs: number | null;
  /** Maximum bytes on disk of each data folder. */
  retention_size: number | null;
}

/** Why a run is collected; `empty`: its folder never had a record. */
export type CollectReason = "age" | "runs" | "size" | "empty";

/** An ended run that may be collected. */
export interface Candidate {
  uuid: string;
  endedAtMs: number;
  bytes: number;
}

/** Returns the runs beyond the limits, oldest first. A run over one limit does not count toward the others. */
export function beyondLimits(
  candidates: readonly Candidate[],
  limits: RetentionLimits,
  nowMs: number,
): { uuid: string; why: CollectReason }[] {
  const newestFirst = candidates.toSorted((a, b) => b.endedAtMs - a.endedAtMs || (a.uuid < b.uuid ? 1 : -1));
  const gone: { uuid: string; why: CollectReason }[] = [];
  let runs = 0;
  let bytes = 0;
  let full = false;
  for (const { uuid, endedAtMs, bytes: own } of newestFirst) {
    const young = limits.retention_age === null || nowMs - endedAtMs <= limits.retention_age;
    // Once a run does not fit, all older runs are collected too.
    full ||= limits.retention_size !== null && bytes + own > limits.retention_size;
    if (!young) gone.push({ uuid, why: "age" });
    else if (limits.retention_runs !== null && runs >= limits.retention_runs)
      gone.push({ uuid, why: "runs" });
    else if (full) gone.push({ uuid, why: "size" });
    else {
      runs++;
      bytes += own;
    }
  }
  return gone.reverse();
}

/**
 * Returns the runs that stay regardless of the limits: open runs (live or resumable), their parents and fork origins,
 * and the children of open agents, which may still need their results. Ended children of a supervisor or a command are
 * not needed.
 */
export function neededRuns(rows: readonly RunRow[], isOpen: (row: RunRow) => boolean): Set<string> {
  const byUuid = new Map(rows.map((row) => [row.uuid, row]));
  const needed = new Set<string>();
  const open = rows.filter(isOpen);
  const agents = new Set(open.filter(({ kind }) => kind === "agent").map(({ uuid }) => uuid));
  const children = rows.filter(({ parent_uuid }) => parent_uuid !== null && agents.has(parent_uuid));
  const left = [...open, ...children].map(({ uuid }) => uuid);
  for (let uuid = left.pop(); uuid !== undefined; uuid = left.pop()) {
    if (needed.has(uuid)) continue;
    needed.add(uuid);
    const row = byUuid.get(uuid);
    if (row) left.push(...[row.parent_uuid, row.origin_uuid].filter((above) => above !== null));
  }
  return needed;
}
