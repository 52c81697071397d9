/** `rnix cron history` and `next`: what became of a job's times, and when they will be. */

import { MAX_AGE_MS, parseDuration } from "../../lib/duration.ts";
import { localZone } from "../../lib/time-zone.ts";
import type { LedgerRow, NextInstants } from "../../plugin/index.ts";
import { defineCommand } from "../command.ts";
import { usageError } from "../exit.ts";
import { age, bool, count, json, text } from "../flags.ts";
import { print } from "../output/print.ts";
import { cronCall } from "./call.ts";
import { failedHint, rowsTable, strip } from "./rows.ts";
import { distance, instantText } from "./when.ts";

const ROWS = 30;

export const history = defineCommand({
  about: "List what became of each time: ran, failed, skipped, missed, blocked, and why",
  args: [{ name: "JOB", about: "the job's name; without one, all jobs of the project", optional: true }],
  flags: {
    since: age("only those of this time until now, such as 24h"),
    limit: count(`the last N rows (default ${ROWS})`, "N"),
    "all-projects": bool("the jobs of all projects"),
    json,
  },
  examples: {
    "rnix cron history nightly": "a mark and a line for each time",
    "rnix cron history nightly --json": "the rows as one array, newest last",
  },
  async run(io, flags, [name]) {
    const since_ms =
      flags.since === undefined ? undefined : Date.now() - parseDuration(flags.since, MAX_AGE_MS);
    const wanted = { name, since_ms, limit: flags.limit ?? ROWS, all_projects: flags["all-projects"] };
    // A name that is not there is an error, and not an empty list.
    if (name !== undefined && !flags["all-projects"])
      await cronCall(io, "show", { name, limit: 1, count: 1 });
    const rows = await cronCall<LedgerRow[]>(io, "history", wanted);
    if (rows.length === 0 && !flags.json) io.stderr.write("nothing has been due yet\n");
    return print(io, flags, rows, () => {
      if (rows.length === 0) return "";
      const withJob = name === undefined;
      const hint = withJob ? "" : failedHint(rows);
      return `${strip(rows, io, io.stdout)}\n\n${rowsTable(rows, io, { withJob })}${hint}`;
    });
  },
});

const SHOWN = 5;

export const next = defineCommand({
  about: "Show the next times of a job or of an expression",
  args: [
    { name: "JOB|SCHEDULE", about: "the job's name, or an expression such as '0 3 * * 1-5'", sentence: true },
  ],
  flags: {
    tz: text("the zone of the expression, such as Europe/Berlin; by default this machine's", "ZONE"),
    count: count(`how many (default ${SHOWN})`, "N"),
    json,
  },
  examples: {
    "rnix cron next nightly": "the next five times",
    "rnix cron next '30 2 * * *' --tz Europe/Berlin --count 10": "tries an expression",
  },
  async run(io, flags, [given = ""]) {
    const isExpression = /\s|^@/.test(given.trim());
    if (flags.tz !== undefined && !isExpression)
      throw usageError("--tz belongs to an expression: a job has its own zone");
    const what = isExpression ? { expression: given, tz: flags.tz } : { name: given };
    const found = await cronCall<NextInstants>(io, "next", { ...what, count: flags.count ?? SHOWN });
    const zone = flags.tz ?? localZone();
    const now = Date.now();
    const code = print(io, flags, found, () =>
      found.instants.map((iso) => `${instantText(iso, zone)}  ${distance(iso, now)}\n`).join(""),
    );
    if (flags.json) return code;
    if (found.instants.length === 0)
      io.stderr.write("no time is left: the job waits for an event, is over or is disabled\n");
    for (const warning of found.warnings) io.stderr.write(`warning: ${warning}\n`);
    return code;
  },
});
