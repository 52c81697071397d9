/** A moment that a person or a model writes: a date, or an age such as 7d. */

import { SyscallError } from "rnix/plugin";

const UNITS: Readonly<Record<string, number>> = { s: 1e3, m: 60e3, h: 3600e3, d: 86_400e3, w: 604_800e3 };

/** Unix ms; undefined where none is given. */
export function momentOf(name: string, text: string | undefined, now: number): number | undefined {
  if (text === undefined) return undefined;
  const [, count, unit = ""] = /^(\d{1,6})\s?([smhdw])$/.exec(text.trim()) ?? [];
  if (count !== undefined) return now - Number(count) * (UNITS[unit] ?? 0);
  const time = /^\d{4}-\d{2}/.test(text.trim()) ? Date.parse(text.trim()) : Number.NaN;
  if (!Number.isNaN(time)) return time;
  throw new SyscallError(
    "INVALID",
    `${name}: expected a date such as 2026-11-22 or an age such as 7d, got ${JSON.stringify(text.slice(0, 60))}.`,
  );
}
