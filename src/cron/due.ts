/** Finds the due instants of a job's clock and makes their rows. */

import { isoOf } from "../lib/time-zone.ts";
import type { LedgerRow } from "../plugin/index.ts";
import type { StoredJob } from "./job.ts";
import { isOfClock } from "./ledger.ts";
import type { Timetable } from "./timetable.ts";

/** Maximum rows of single instants that one look makes; older ones share a row. */
const MAX_SINGLE = 100;
/** Instants that are counted exactly; of more, a row has a lower bound. */
const MAX_COUNTED = 20_000;
/** Instants after which other work gets a turn. */
const SLICE = 200;

/** What a row has before its run: of an instant's first attempt, and of each later one. */
export const NOT_RUN = {
  state: "due",
  reason: null,
  uuid: null,
  started: null,
  ended: null,
  exit_code: null,
  exit_reason: null,
  tokens_used: 0,
  cost_usd: null,
} as const satisfies Partial<LedgerRow>;

/** A row of a new instant. */
export function dueRow(
  job: Pick<StoredJob, "name" | "id">,
  due: number,
  more: Partial<LedgerRow> = {},
): LedgerRow {
  return {
    v: 1,
    job: job.name,
    job_id: job.id,
    due: isoOf(due),
    late_ms: 0,
    ...NOT_RUN,
    attempt: 1,
    ...more,
  };
}

interface DuePeriod {
  /** The last instant that is accounted for. */
  after: number;
  now: number;
  isAccounted(due: number): boolean;
}

/**
 * The rows of all instants in a period: one for each of the newest, and one of state missed for all before them, as after a
 * long time in which no daemon ran.
 */
export async function dueRows(
  job: StoredJob,
  table: Timetable,
  { after, now, isAccounted }: DuePeriod,
): Promise<LedgerRow[]> {
  const newest: number[] = [];
  let first: number | null = null;
  let last = 0;
  let count = 0;
  let found = 0;
  for (let due = table.next(after); due !== null && due <= now; due = table.next(due)) {
    if (++found % SLICE === 0) await new Promise<void>((resolve) => setImmediate(resolve));
    if (isAccounted(due)) continue;
    newest.push(due);
    if (newest.length > MAX_SINGLE) {
      last = newest.shift() ?? due;
      first ??= last;
      count++;
    }
    if (found < MAX_COUNTED) continue;
    const final = lastBefore(table, now);
    last = final === newest.at(-1) ? (newest.at(-2) ?? last) : final - 1;
    newest.splice(0, newest.length, final);
    break;
  }
  const singles = newest.map((due) => dueRow(job, due));
  if (first === null) return singles;
  const missed = dueRow(job, first, {
    state: "missed",
    reason: "no daemon ran",
    late_ms: now - first,
    until: isoOf(last),
    count,
  });
  return [missed, ...singles];
}

/** The last instant up to `now`; there is one. */
function lastBefore(table: Timetable, now: number): number {
  let back = 1000;
  while ((table.next(now - back) ?? Number.POSITIVE_INFINITY) > now) back *= 2;
  let last = now;
  for (let due = table.next(now - back); due !== null && due <= now; due = table.next(due)) last = due;
  return last;
}

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
