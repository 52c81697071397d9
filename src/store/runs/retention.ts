import type { RunRow } from "./run-index.ts";

/** How much of what has ended is kept. null: no limit. */
export interface RetentionLimits {
  /** Since its end. */
  retention_age: number | null;
  /** The newest of each data folder. */
  retention_runs: number | null;
  /** Of each data folder, on disk. */
  retention_size: number | null;
}

/** Why a run is not kept; `empty`: a folder in which no run was ever recorded. */
export type CollectReason = "age" | "runs" | "size" | "empty";

/** An ended run that nobody needs. */
export interface Candidate {
  uuid: string;
  endedAtMs: number;
  bytes: number;
}

/** The oldest first; what one limit takes counts for no other. */
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
    // Nothing that is older than what did not fit is kept in its place.
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
 * The runs that must stay whatever the limits say: those that live or wait to be gone on with, those they come
 * from by parent or by fork, and the children of agents, whose results they may have still to be told. What a
 * supervisor or a command has started and seen end is nobody's.
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
