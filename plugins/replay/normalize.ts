/** Makes the results of two runs comparable. */

/** Replaces what differs between any two runs. Two results count as equal when their normalized texts are. */
export type Normalize = (text: string) => string;

/**
 * Replaces (docs/replay.md) the runs' folders, times, durations, UUIDs, PIDs, ports of this machine, memory addresses,
 * temporary folders, and the file of a truncated result.
 */
export function normalize(...runs: readonly ({ cwd?: string; project?: string } | undefined)[]): Normalize {
  const folders = [
    ...runs.map((run) => [run?.cwd, "<cwd>"] as const),
    ...runs.map((run) => [run?.project, "<project>"] as const),
  ];
  return (text) => {
    let plain = text.replace(CUT, "[… left out here …]");
    for (const [folder, name] of folders)
      if (folder !== undefined && folder !== "/") plain = replaceFolder(plain, folder, name);
    return RULES.reduce((rest, [pattern, name]) => rest.replace(pattern, name), plain).trimEnd();
  };
}

/** The error code in a result sent to the model; null for a successful call. */
export function errorOf(result: string): string | null {
  return /^Error ([A-Z_]+): /.exec(result)?.[1] ?? null;
}

/** Replaces a folder's path, but not a longer name that begins with it. */
export function replaceFolder(text: string, folder: string, name: string): string {
  if (!text.includes(folder)) return text;
  const escaped = folder.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return text.replace(new RegExp(`${escaped}(?![\\w.-]*\\w)`, "g"), () => name);
}

/** The kernel's mark in a truncated result. */
const CUT = /\[… \d+ of \d+ characters left out here\.[^\n…]*…\]/g;

const DATE = "\\d{4}-\\d{2}-\\d{2}";
const CLOCK = "\\d{1,2}:\\d{2}:\\d{2}(?:[.,]\\d+)?";
const ZONE = "(?:\\s?(?:Z|UTC|GMT|[+-]\\d{2}:?\\d{2}))?";
const DAY = "(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,?\\s+)?";
const MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*";
const HOUR = "\\d{1,2}:\\d{2}(?::\\d{2})?(?:\\s?[AP]M)?(?:\\s[A-Z]{3,4}\\b)?";

/** In this order: a part of a UUID may look like something else. */
const RULES: readonly (readonly [RegExp, string])[] = [
  [/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi, "<uuid>"],
  [new RegExp(`\\b${DATE}[T ]${CLOCK}${ZONE}`, "g"), "<time>"],
  // The forms of date, ls, git and mail headers.
  [
    new RegExp(`\\b${DAY}${MONTH}\\s+\\d{1,2},?\\s+(?:${HOUR}(?:\\s+\\d{4}\\b)?|\\d{4}\\b)${ZONE}`, "g"),
    "<time>",
  ],
  [new RegExp(`\\b${DAY}\\d{1,2}\\s+${MONTH}\\s+\\d{4}(?:\\s+${HOUR})?${ZONE}`, "g"), "<time>"],
  [new RegExp(`\\b(?:${DATE}|${CLOCK})${ZONE}`, "g"), "<time>"],
  [/\b\d+(?:\.\d+)?\s?(?:ns|µs|μs|us|ms|s|secs?|seconds?|mins?|minutes?|hours?|h|m)\b/g, "<duration>"],
  [/\b(pid|process)([ =:]+)\d+/gi, "$1$2<pid>"],
  [/\b(localhost|127\.0\.0\.1|\[::1\]):\d+/g, "$1:<port>"],
  [/\b0x[0-9a-f]{6,}\b/gi, "<address>"],
  [/(?:\/private)?(?:\/var\/folders\/[\w+]+\/[\w+]+\/T|\/var\/tmp|\/tmp)\/[\w.+-]+/g, "<temp>"],
];
