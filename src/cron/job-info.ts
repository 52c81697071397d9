/** What is shown of a job. */

import { isoOf } from "../lib/time-zone.ts";
import type { JobInfo, LedgerRow } from "../plugin/index.ts";
import { isScheduled, type StoredJob } from "./job.ts";
import { isClockTrigger, timetableOf } from "./timetable.ts";

/** Maximum instants that are computed for one answer. */
const MAX_NEXT = 1000;

export function jobInfo(job: StoredJob, last: LedgerRow | null, now: number): JobInfo {
  const { rights: _, since: __, conversation: ___, silent: ____, held: _____, ...shown } = job;
  const [next = null] = isScheduled(job) ? nextInstants(job, now, 1) : [];
  return { ...shown, next_at: next, last };
}

/** The next instants of a job's clock; none for a job that waits for events. */
export function nextInstants(
  job: Pick<StoredJob, "trigger" | "created_at" | "expires_at">,
  now: number,
  count: number,
): string[] {
  if (!isClockTrigger(job.trigger)) return [];
  const table = timetableOf(job.trigger, Date.parse(job.created_at));
  const instants: string[] = [];
  for (
    let at = table.next(now);
    at !== null && instants.length < Math.min(count, MAX_NEXT);
    at = table.next(at)
  )
    instants.push(isoOf(at));
  return instants;
}
