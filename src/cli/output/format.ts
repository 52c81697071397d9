/** Formats durations, counts, costs, sizes and text for the terminal. */

/** 850ms, 2.1s, 3m05s, 1h02m, 3d04h. */
export function formatElapsed(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)}ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)}s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m${two(seconds % 60)}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 1440) return `${Math.floor(minutes / 60)}h${two(minutes % 60)}m`;
  const hours = Math.floor(minutes / 60);
  return `${Math.floor(hours / 24)}d${two(hours % 24)}h`;
}

/** Whole seconds, rounded down, so that a running clock does not flicker. */
export function formatSeconds(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  return seconds < 60 ? `${seconds}s` : formatElapsed(seconds * 1000);
}

/** 999, 1.2k, 35k, 1.3M. */
export function formatCount(n: number): string {
  if (n < 1000) return String(n);
  if (n < 9950) return `${(n / 1000).toFixed(1)}k`;
  if (n < 999_500) return `${Math.round(n / 1000)}k`;
  return `${(n / 1_000_000).toFixed(1)}M`;
}

/** Unknown cost is "-", never 0. */
export function formatCost(usd: number | null): string {
  if (usd === null) return "-";
  return usd !== 0 && usd < 0.01 ? `$${usd.toFixed(4)}` : `$${usd.toFixed(2)}`;
}

/** A local time, to the second. For an invalid date in a record, the nearest valid one. */
export function localTime(ms: number): string {
  const valid = Math.max(0, Math.min(ms, LAST_DATE));
  const date = new Date(valid - new Date(valid).getTimezoneOffset() * 60_000);
  return date.toISOString().slice(0, 19).replace("T", " ");
}

/** 9999-12-30, the last date with four digits for the year in all time zones. */
const LAST_DATE = Date.UTC(9999, 11, 30);

export function formatBytes(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  if (bytes < 1024 * 1024) return `${(bytes / 1024).toFixed(1)} KiB`;
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}

/** "1 step", "2 steps". */
export function plural(n: number, one: string, many = `${one}s`): string {
  return `${n} ${n === 1 ? one : many}`;
}

/** The first `most` lines and the number of the others; one line more takes no more room than that number. */
export function firstLines(lines: readonly string[], most: number): readonly string[] {
  if (lines.length <= most + 1) return lines;
  return [...lines.slice(0, most), `… ${lines.length - most} more lines`];
}

/** The text on one line, without control characters, cut to `width` columns. */
export function oneLine(text: string, width: number): string {
  return cut(printable(text).replace(/\s+/g, " ").trim(), width);
}

/** Cut to `width` columns, with an ellipsis where something is missing. */
export function cut(text: string, width: number): string {
  if (Bun.stringWidth(text) <= width) return text;
  const room = Math.max(0, width - 1);
  const shown = Bun.sliceAnsi(text, 0, room);
  // A wide character that begins in the last column is part of the slice.
  return `${(Bun.stringWidth(shown) > room ? Bun.sliceAnsi(text, 0, room - 1) : shown).trimEnd()}…`;
}

/** Escapes text of models and programs, which must not move the cursor, colour the terminal or reorder text. */
export function printable(text: string): string {
  return Bun.stripANSI(text).replace(CONTROL, "");
}

// All of C0 and C1 but tab and newline; controls of the direction of text; separators of lines.
const CONTROL = /(?![\t\n])[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]/gu;

function two(n: number): string {
  return String(n).padStart(2, "0");
}
