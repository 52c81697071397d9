/** `rnix cron history`: the rows of the ledger, newest last. */

import { MAX_AGE_MS, parseDuration } from "../../lib/duration.ts";
import type { LedgerRow } from "../../plugin/index.ts";
import { defineCommand } from "../command.ts";
import { age, bool, count, json } from "../flags.ts";
import { print } from "../output/print.ts";
import { cronCall } from "./call.ts";
import { failedHint, rowsTable, strip } from "./rows.ts";

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
