/** The instants of a job's clock trigger, and what its expression leaves open. */

import { Cron } from "croner";
import { parseDuration } from "../lib/duration.ts";
import { messageOf } from "../lib/error-detail.ts";
import { type JobTrigger, SyscallError } from "../plugin/index.ts";

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
/** The shortest `every`. */
const MIN_EVERY_MS = 1000;
const MAX_EVERY_MS = 366 * 86_400_000;
/** How far below an instant `croner` is asked again, so that its rounding to seconds loses none. */
const SECOND_MS = 1000;

/** The name of this machine's zone, such as Europe/Berlin. */
export function localZone(): string {
  return new Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/**
 * The timetable of a trigger. `createdAt` is where `every` counts from. Fails with INVALID for what no clock can follow.
 */
export function timetableOf(trigger: ClockTrigger, createdAt: number): Timetable {
  if ("at" in trigger) return once(instantOf(trigger.at, trigger.tz));
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
  if (pattern.toLowerCase() === "@reboot") throw noReboot();
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

const FORMS =
  'Expected five fields ("0 3 * * 1-5": minute, hour, day of month, month, day of week), six with seconds first, @hourly, @daily, @weekly, @monthly, @yearly or "@every 15m".';

function noReboot(): SyscallError {
  return new SyscallError(
    "INVALID",
    'A job can\'t run "@reboot": no instant is due. Use a supervisor in init.yaml, which starts with the daemon.',
  );
}

function reasonOf(cause: unknown, pattern: string): string {
  const fields = pattern.split(" ").length;
  if (fields !== 5 && fields !== 6) return fields === 1 ? "it is one word" : `it has ${fields} fields`;
  const text = messageOf(cause);
  return text.replace(/^CronPattern: /, "").replace(/\.$/, "");
}

export function isZone(zone: string): boolean {
  try {
    requireZone(zone);
    return true;
  } catch {
    return false;
  }
}

function requireZone(zone: string): void {
  try {
    new Intl.DateTimeFormat("en", { timeZone: zone });
  } catch (cause) {
    throw new SyscallError(
      "INVALID",
      `"${zone}" is no time zone. Expected a name such as Europe/Berlin or UTC.`,
      {
        cause,
      },
    );
  }
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

const LOCAL = /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2}))?)?$/;

/**
 * Parses a time: RFC 3339, or without an offset in `zone`. A time in a gap is its end; of two equal times it is the first.
 */
export function instantOf(text: string, zone = localZone()): number {
  requireZone(zone);
  const local = LOCAL.exec(text);
  if (local) {
    const [year, month, day, hour, minute, second] = local.slice(1).map((part) => Number(part ?? 0));
    const wall = Date.UTC(year ?? 0, (month ?? 1) - 1, day, hour, minute, second);
    if (isoOf(wall).slice(0, 10) === text.slice(0, 10) && (hour ?? 0) < 24) return fromWall(wall, zone);
  } else if (/^\d{4}-\d{2}-\d{2}T.+(?:Z|[+-]\d{2}:\d{2})$/.test(text) && !Number.isNaN(Date.parse(text))) {
    return Date.parse(text);
  }
  throw new SyscallError(
    "INVALID",
    `"${text}" is no time. Expected 2027-01-05T09:00 (in ${zone}) or 2027-01-05T09:00:00Z.`,
  );
}

/** The instant at which the clocks of a zone show this time. */
function fromWall(wall: number, zone: string): number {
  const day = 86_400_000;
  const offsets = [...new Set([offsetAt(wall - day, zone), offsetAt(wall + day, zone)])];
  const found = offsets.map((offset) => wall - offset).filter((at) => at + offsetAt(at, zone) === wall);
  if (found.length > 0) return Math.min(...found);
  // In a gap: the first instant after it is where the offset changes.
  let [before, after] = [wall - Math.max(...offsets), wall - Math.min(...offsets)];
  const old = offsetAt(before, zone);
  while (after - before > 1) {
    const middle = Math.floor((before + after) / 2);
    if (offsetAt(middle, zone) === old) before = middle;
    else after = middle;
  }
  return after;
}

/** What the clocks of a zone are ahead of UTC, in ms. */
function offsetAt(at: number, zone: string): number {
  const parts = formatOf(zone).formatToParts(at);
  const of = (type: string): number => Number(parts.find((part) => part.type === type)?.value);
  const wall = Date.UTC(of("year"), of("month") - 1, of("day"), of("hour"), of("minute"), of("second"));
  return wall - Math.floor(at / SECOND_MS) * SECOND_MS;
}

const formats = new Map<string, Intl.DateTimeFormat>();

/** Making a format costs more than using it a hundred times. */
function formatOf(zone: string): Intl.DateTimeFormat {
  const known = formats.get(zone);
  if (known) return known;
  const made = new Intl.DateTimeFormat("en-US", {
    timeZone: zone,
    hourCycle: "h23",
    year: "numeric",
    month: "numeric",
    day: "numeric",
    hour: "numeric",
    minute: "numeric",
    second: "numeric",
  });
  formats.set(zone, made);
  return made;
}

/** The date of an instant in a zone: 2026-11-20. */
export function dayOf(at: number, zone: string): string {
  return isoOf(at + offsetAt(at, zone)).slice(0, 10);
}

/** RFC 3339 with milliseconds, UTC. */
export function isoOf(at: number): string {
  return new Date(at).toISOString();
}
