/** `rnix cron show`: one job with everything that was set, its next instants and its last runs. */

import type { JobInfo, LedgerRow } from "../../plugin/index.ts";
import { defineCommand } from "../command.ts";
import { EXIT } from "../exit.ts";
import { count, json } from "../flags.ts";
import { styleOf } from "../output/style.ts";
import { fields } from "../output/table.ts";
import { cronCall } from "./call.ts";
import { jobFields, nextLines } from "./job-text.ts";
import { failedHint, rowsTable, strip } from "./rows.ts";

const ROWS = 30;
/** Rows of the table below the strip. */
const TABLE = 8;

interface Shown {
  job: JobInfo;
  next: string[];
  runs: LedgerRow[];
}

export const JOB_ARGUMENT = { name: "JOB", about: "the job's name; rnix cron list shows them" } as const;

export const show = defineCommand({
  about: "Show everything about one job: settings, next times, last runs",
  args: [JOB_ARGUMENT],
  flags: { limit: count(`the last N rows (default ${ROWS})`, "N"), json },
  examples: [{ line: "rnix cron show nightly", about: "the strip has a mark for each of its last times" }],
  async run(io, flags, [name]) {
    const shown = await cronCall<Shown>(io, "show", { name, limit: flags.limit ?? ROWS });
    if (flags.json) {
      io.stdout.write(`${JSON.stringify(shown, null, 2)}\n`);
      return EXIT.ok;
    }
    const { job, next, runs } = shown;
    const style = styleOf(io, io.stdout);
    io.stdout.write(`job ${style.bold(job.name)}\n${fields(jobFields(job), style)}`);
    // A paused or disabled job has none.
    if (job.next_at !== null && next.length > 0)
      io.stdout.write(`\nnext\n${nextLines(job, next, style).split("\n").slice(1).join("\n")}`);
    if (runs.length === 0) io.stdout.write("\nit has not been due yet\n");
    else
      io.stdout.write(
        `\n${strip(runs, io, io.stdout)}\n\n${rowsTable(runs.slice(-TABLE), io)}${failedHint(runs)}`,
      );
    return EXIT.ok;
  },
});
