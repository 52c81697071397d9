/** The timetables of a project's jobs, made once for each trigger. */

import type { StoredJob } from "./job.ts";
import { type ClockTrigger, isClockTrigger, type Timetable, timetableOf } from "./timetable.ts";

export class Timetables {
  readonly #ofJob = new WeakMap<StoredJob, Timetable>();
  /** By the job's id: jobs are read again after each change, and most triggers stay. */
  readonly #made = new Map<string, { key: string; table: Timetable }>();

  /** undefined for a job that waits for events. */
  of(job: StoredJob): Timetable | undefined {
    const ready = this.#ofJob.get(job);
    if (ready || !isClockTrigger(job.trigger)) return ready;
    const table = this.#make(job, job.trigger);
    this.#ofJob.set(job, table);
    return table;
  }

  #make(job: StoredJob, trigger: ClockTrigger): Timetable {
    const key = JSON.stringify([job.trigger, job.created_at]);
    const known = this.#made.get(job.id);
    if (known?.key === key) return known.table;
    const table = cached(timetableOf(trigger, Date.parse(job.created_at)));
    this.#made.set(job.id, { key, table });
    return table;
  }
}

/** Remembers the last answer: between two instants it is asked for many times. */
function cached(table: Timetable): Timetable {
  let from = Number.NaN;
  let found: number | null = null;
  return {
    warnings: table.warnings,
    next(after) {
      if (after >= from && found !== null && after < found) return found;
      found = table.next(after);
      from = after;
      return found;
    },
  };
}
