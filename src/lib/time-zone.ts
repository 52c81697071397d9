/** Times in the clocks of a time zone. */

import { SyscallError } from "../plugin/index.ts";

/** The name of this machine's zone, such as Europe/Berlin. */
export function localZone(): string {
  return new Intl.DateTimeFormat().resolvedOptions().timeZone;
}

export function isZone(zone: string): boolean {
  try {
    requireZone(zone);
    return true;
  } catch {
    return false;
  }
}

/** Fails with INVALID for a name that is no zone. */
export function requireZone(zone: string): void {
  try {
    new Intl.DateTimeFormat("en", { timeZone: zone });
  } catch (cause) {
    const message = `"${zone}" is no time zone. Expected a name such as Europe/Berlin or UTC.`;
    throw new SyscallError("INVALID", message, { cause });
  }
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
  const why = `"${text}" is no time. Expected 2027-01-05T09:00 (in ${zone}) or 2027-01-05T09:00:00Z.`;
  throw new SyscallError("INVALID", why);
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
  return wall - Math.floor(at / 1000) * 1000;
}

const formats = new Map<string, Intl.DateTimeFormat>();

/** Making a format costs more than using it a hundred times. */
function formatOf(zone: string): Intl.DateTimeFormat {
  const date = { year: "numeric", month: "numeric", day: "numeric" } as const;
  const time = { hourCycle: "h23", hour: "numeric", minute: "numeric", second: "numeric" } as const;
  const made = () => new Intl.DateTimeFormat("en-US", { timeZone: zone, ...date, ...time });
  return formats.getOrInsertComputed(zone, made);
}

/** The date of an instant in a zone: 2026-11-20. */
export function dayOf(at: number, zone: string): string {
  return isoOf(at + offsetAt(at, zone)).slice(0, 10);
}

/** RFC 3339 with milliseconds, UTC. */
export function isoOf(at: number): string {
  return new Date(at).toISOString();
}
