/** What becomes of missed instants when the clock is set back. Pure functions. */

import { isoOf } from "../lib/time-zone.ts";
import type { LedgerRow } from "../plugin/index.ts";
import type { StoredJob } from "./job.ts";
import { isOfClock } from "./ledger.ts";

/** A clock that goes back by less is adjusted, not set. */
export const SET_BACK_MS = 60_000;

/** The last missed instant: one that has not come yet shows that the clock was ahead before a restart. */
export function latestMissed(rows: readonly LedgerRow[]): number {
  let latest = Number.NEGATIVE_INFINITY;
  for (const row of rows) {
    if (row.state === "missed" && isOfClock(row)) latest = Math.max(latest, Date.parse(row.until ?? row.due));
  }
  return latest;
}

/**
 * From when a job's instants count. A clock that was set back before its last enabling does not change that: until then
 * they count from its making, and before its making there are none.
 */
export function countedFrom(
  { since, created_at }: Pick<StoredJob, "since" | "created_at">,
  now: number,
): number {
  const enabled = Date.parse(since);
  return enabled <= now ? enabled : Date.parse(created_at);
}

/**
 * New versions of the rows whose instants a clock set ahead has passed over: they wait for their time again.
 * `countOf`: the instants of a job in a period.
 */
export function waitAgain(
  rows: readonly LedgerRow[],
  now: number,
  countOf: (jobId: string, from: number, until: number) => number,
): LedgerRow[] {
  return rows.flatMap((row): LedgerRow[] => {
    if (row.state !== "missed" || !isOfClock(row)) return [];
    const { until, count: _, ...single } = row;
    const first = Date.parse(row.due);
    if (first > now) return [{ ...single, state: "due", reason: null, late_ms: 0 }];
    if (until === undefined || Date.parse(until) <= now) return [];
    return [{ ...row, until: isoOf(now), count: countOf(row.job_id, first, now) }];
  });
}
