/** How often changed files may start a job. */

import { isoOf } from "../lib/time-zone.ts";
import type { LedgerRow } from "../plugin/index.ts";
import type { StoredJob } from "./job.ts";

/** Maximum runs in the period. Two jobs that change each other's files would start each other without end. */
const MAX_RUNS = 60;
const PERIOD_MS = 3_600_000;

/** Why changed files may not start another run of the job now; null: they may. */
export function startedTooOften(
  { trigger }: StoredJob,
  rows: readonly LedgerRow[],
  now: number,
): string | null {
  if (!("on_change" in trigger)) return null;
  const from = isoOf(now - PERIOD_MS);
  const begun = rows.filter(({ started, attempt }) => started !== null && started > from && attempt === 1);
  if (begun.length < MAX_RUNS) return null;
  return `changed files have started it ${begun.length} times in an hour: another job may write into its folders`;
}
