/** `rnix morning`: what ran since yesterday evening, and what waits for the user. */

import { MAX_AGE_MS, parseDuration } from "../../lib/duration.ts";
import { SyscallError } from "../../plugin/index.ts";
import { defineCommand } from "../command.ts";
import { usageError } from "../exit.ts";
import { bool, json, text } from "../flags.ts";
import { withWire } from "../io.ts";
import { print } from "../output/print.ts";

/** Yesterday's hour at which the report begins. */
const EVENING = 18;

export default defineCommand({
  about: "Show what ran since yesterday evening: results, cost, failures, questions, silent jobs",
  flags: {
    since: text("from when: a duration such as 12h, or a time; by default yesterday, 18:00", "DUR|TIME"),
    markdown: bool("print it as Markdown, for a mail or a message"),
    json,
  },
  examples: {
    "rnix morning": "what ran in all projects, and what waits for you",
    "rnix morning --since 7d --markdown > week.md":
      "the last seven days as Markdown, for a mail or a message",
  },
  notes: [
    "A job can send it: let its agent call rnix morning --markdown, with --allow 'Bash(rnix morning*)' and --deliver.",
  ],
  async run(io, flags) {
    if (flags.markdown && flags.json) throw usageError("--markdown and --json exclude each other");
    const since_ms = flags.since === undefined ? yesterdayEvening() : sinceOf(flags.since);
    const { markdownText, morningReport, terminalText } = await import("../cron/morning.ts");
    const report = await withWire(io, async (wire) =>
      morningReport(await wire.request("morning", { since_ms })),
    );
    const columns = io.stdout.isTTY ? io.stdout.columns : Number.POSITIVE_INFINITY;
    return print(io, flags, report, (style) =>
      flags.markdown ? markdownText(report) : terminalText(report, style, columns),
    );
  },
});

function yesterdayEvening(): number {
  const at = new Date();
  at.setDate(at.getDate() - 1);
  return at.setHours(EVENING, 0, 0, 0);
}

function sinceOf(given: string): number {
  const ms = durationOf(given);
  if (ms !== null) return Math.max(0, Date.now() - ms);
  const at = /^\d{4}-\d\d-\d\d/.test(given) ? Date.parse(given) : Number.NaN;
  if (!Number.isNaN(at) && at <= Date.now() && at >= 0) return at;
  throw usageError(
    `--since: expected a duration such as 12h, or a time that is past such as 2027-01-05T18:00, got ${JSON.stringify(given)}`,
  );
}

function durationOf(text: string): number | null {
  try {
    return parseDuration(text, MAX_AGE_MS);
  } catch (error) {
    if (error instanceof SyscallError) return null;
    throw error;
  }
}
