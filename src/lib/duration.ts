/** Parses and formats durations. */

import { SyscallError } from "../plugin/errors.ts";

const UNITS = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000, ms: 1 } as const;
const SHAPE = /^(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+)s)?(?:(\d+)ms)?$/;

/** The longest timer: 2^31 - 1 ms, a little under 25 days. */
export const MAX_DURATION_MS = 2 ** 31 - 1;

/** The longest age that a file may set: a hundred years. */
export const MAX_AGE_MS = 36_500 * UNITS.d;

/**
 * Parses `250ms`, `60s`, `5m`, `1h`, `1h30m`, `2d` to milliseconds. Fails with INVALID for anything else, for 0 and for
 * more than `max` (by default the longest timer).
 */
export function parseDuration(text: string, max: number = MAX_DURATION_MS): number {
  const parts = text === "" ? null : SHAPE.exec(text);
  if (!parts) {
    const hint = /^\d+$/.test(text) ? `, such as ${text}s` : "";
    const message = `expected a duration like 250ms, 60s, 5m, 1h or 1h30m, got "${text}"${hint}`;
    throw new SyscallError("INVALID", message);
  }
  const [, d, h, m, s, ms] = parts.map((part) => Number(part ?? 0));
  const total =
    (d ?? 0) * UNITS.d + (h ?? 0) * UNITS.h + (m ?? 0) * UNITS.m + (s ?? 0) * UNITS.s + (ms ?? 0) * UNITS.ms;
  if (total === 0) throw new SyscallError("INVALID", `expected a duration above 0, got "${text}"`);
  if (total > max) {
    const message = `expected at most ${Math.floor(max / UNITS.d)}d, got "${text}"; write unlimited for no limit`;
    throw new SyscallError("INVALID", message);
  }
  return total;
}

/** Formats milliseconds for `parseDuration`, as short as possible: 90000 is `1m30s`. */
export function formatDuration(ms: number): string {
  let rest = ms;
  let text = "";
  for (const [unit, size] of Object.entries(UNITS)) {
    const count = Math.floor(rest / size);
    if (count > 0) text += `${count}${unit}`;
    rest -= count * size;
  }
  return text === "" ? "0ms" : text;
}
