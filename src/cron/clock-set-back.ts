/** What becomes of missed instants when the clock is set back. Pure functions. */

import { isoOf } from "../lib/time-zone.ts";
import type { LedgerRow } from "../plugin/index.ts";
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

/** New versions of the rows whose instants a clock set ahead has passed over: they wait for their time again. */
export function waitAgain(rows: readonly LedgerRow[], now: number): LedgerRow[] {
  return rows.flatMap((row): LedgerRow[] => {
    if (row.state !== "missed" || !isOfClock(row)) return [];
    const { until, count: _, ...single } = row;
    if (Date.parse(row.due) > now) return [{ ...single, state: "due", reason: null, late_ms: 0 }];
    return until !== undefined && Date.parse(until) > now ? [{ ...row, until: isoOf(now) }] : [];
  });
}
