/** How often events may start a job. */

import { formatDuration } from "../lib/duration.ts";
import { isoOf } from "../lib/time-zone.ts";
import type { LedgerRow } from "../plugin/index.ts";
import type { StoredJob } from "./job.ts";
import { LEAST_INTERVAL_MS } from "./run-made.ts";
import { isClockTrigger } from "./timetable.ts";

/** Maximum runs in the period. Two jobs that change each other's files would start each other without end. */
const MAX_RUNS = 60;
const PERIOD_MS = 3_600_000;

/** Why events may not start another run of the job now; null: they may. */
export function startedTooOften(
  { creator, trigger }: StoredJob,
  rows: readonly LedgerRow[],
  now: number,
): string | null {
  const begunWithin = (ms: number): number => {
    const from = isoOf(now - ms);
    return rows.filter(({ started, attempt }) => started !== null && started > from && attempt === 1).length;
  };
  if (creator.kind === "run" && !isClockTrigger(trigger) && begunWithin(LEAST_INTERVAL_MS) > 0)
    return `a run made the job: events start it at most every ${formatDuration(LEAST_INTERVAL_MS)}`;
  const begun = "on_change" in trigger ? begunWithin(PERIOD_MS) : 0;
  if (begun < MAX_RUNS) return null;
  return `changed files have started it ${begun} times in an hour: another job may write into its folders`;
}
