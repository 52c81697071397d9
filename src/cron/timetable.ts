/** The instants of a job's clock trigger, and what its expression leaves open. */

import { Cron } from "croner";
import { parseDuration } from "../lib/duration.ts";
import { messageOf } from "../lib/error-detail.ts";
import { instantOf, localZone, requireZone } from "../lib/time-zone.ts";
import { type JobInfo, type JobTrigger, SyscallError } from "../plugin/index.ts";

/** The instants of a trigger. All times are Unix ms. */
export interface Timetable {
  /** The first instant after `after`; null when there is none. */
  next(after: number): number | null;
  /** What a reader of the expression may expect otherwise. */
  warnings: string[];
}

export type ClockTrigger = Extract<JobTrigger, { cron: string } | { every: string } | { at: string }>;

export function isClockTrigger(trigger: JobTrigger): trigger is ClockTrigger {
  return "cron" in trigger || "every" in trigger || "at" in trigger;
}

const EVERY = "@every ";
const MIN_EVERY_MS = 1000;
const MAX_EVERY_MS = 366 * 86_400_000;
/** How far below an instant `croner` is asked again, so that its rounding to seconds loses none. */
const SECOND_MS = 1000;

/**
 * The timetable of a trigger. `createdAt` is where `every` counts from. Fails with INVALID for what no clock can follow.
 */
export function timetableOf(trigger: ClockTrigger, createdAt: number): Timetable {
  if ("at" in trigger) return once(instantOf(trigger.at, trigger.tz));
  // An interval has no use for a zone, and takes no wrong one either.
  if ("tz" in trigger && trigger.tz !== undefined) requireZone(trigger.tz);
  if ("every" in trigger) return every(trigger.every, createdAt);
  if (trigger.cron.startsWith(EVERY)) return every(trigger.cron.slice(EVERY.length).trim(), createdAt);
  return expression(trigger.cron, trigger.tz ?? localZone());
}

function once(at: number): Timetable {
  return { next: (after) => (after < at ? at : null), warnings: [] };
}

function every(text: string, createdAt: number): Timetable {
  const ms = parseDuration(text, MAX_EVERY_MS);
  if (ms < MIN_EVERY_MS)
    throw new SyscallError("INVALID", `expected at least 1s between instants, got "${text}"`);
  return {
    next: (after) => createdAt + Math.max(1, Math.floor((after - createdAt) / ms) + 1) * ms,
    warnings: [],
  };
}

/**
 * A time without wildcards in seconds, minutes and hours runs once a day: at the end of a gap, and at the first of two equal
 * times. Expressions with a wildcard follow the clock.
 */
function expression(text: string, zone: string): Timetable {
  requireZone(zone);
  const pattern = text.trim().replace(/\s+/g, " ");
  if (pattern.toLowerCase() === "@reboot") throw new SyscallError("INVALID", NO_REBOOT);
  let cron: Cron;
  try {
    cron = new Cron(pattern, {
      timezone: zone,
      paused: true,
      mode: "5-or-6-parts",
      fixedTimeRule: "no-wildcard",
    });
  } catch (cause) {
    throw new SyscallError("INVALID", `"${text}" is no schedule: ${reasonOf(cause, pattern)}. ${FORMS}`, {
      cause,
    });
  }
  const next = (after: number): number | null => {
    const found = cron.nextRun(new Date(Math.floor(after / SECOND_MS) * SECOND_MS))?.getTime() ?? null;
    return found !== null && found <= after ? next(after + SECOND_MS) : found;
  };
  return { next, warnings: warningsOf(pattern) };
}

const NO_REBOOT =
  'A job can\'t run "@reboot": no instant is due. Use a supervisor in init.yaml, which starts with the daemon.';
const FORMS =
  'Expected five fields ("0 3 * * 1-5": minute, hour, day of month, month, day of week), six with seconds first, @hourly, @daily, @weekly, @monthly, @yearly or "@every 15m".';

function reasonOf(cause: unknown, pattern: string): string {
  const fields = pattern.split(" ").length;
  if (fields !== 5 && fields !== 6) return fields === 1 ? "it is one word" : `it has ${fields} fields`;
  const text = messageOf(cause);
  return text.replace(/^CronPattern: /, "").replace(/\.$/, "");
}

/** The two day fields are the question that every cron answers differently. */
function warningsOf(pattern: string): string[] {
  const fields = pattern.split(" ");
  if (fields.length < 5) return [];
  const [day = "*", , week = "*"] = fields.slice(-3);
  if (day === "*" || week === "*" || day === "?" || week === "?" || week.startsWith("+")) return [];
  const both = [...fields.slice(0, -1), `+${week}`].join(" ");
  const star = day.startsWith("*") || week.startsWith("*");
  const other = star ? ", although other crons require both when a field begins with *" : "";
  return [
    `Day of month (${day}) and day of week (${week}) are both set: it runs when either matches${other}. To require both, write "${both}".`,
  ];
}

type TimedJob = Pick<JobInfo, "id" | "trigger" | "created_at">;

/** The timetables of a project's jobs, made once for each trigger. */
export class Timetables {
  readonly #ofJob = new WeakMap<TimedJob, Timetable>();
  /** By the job's id: jobs are read again after each change, and most triggers stay. */
  readonly #made = new Map<string, { key: string; table: Timetable }>();

  /** undefined for a job that waits for events. */
  of(job: TimedJob): Timetable | undefined {
    const { trigger } = job;
    if (!isClockTrigger(trigger)) return undefined;
    return this.#ofJob.getOrInsertComputed(job, () => {
      const key = JSON.stringify([trigger, job.created_at]);
      const known = this.#made.get(job.id);
      if (known?.key === key) return known.table;
      const table = cached(timetableOf(trigger, Date.parse(job.created_at)));
      this.#made.set(job.id, { key, table });
      return table;
    });
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
