/** `rnix cron show`: one job with everything that was set, its next instants and its last runs. */

import type { JobInfo, LedgerRow } from "../../plugin/index.ts";
import { defineCommand } from "../command.ts";
import { count, json } from "../flags.ts";
import type { Io } from "../io.ts";
import { print } from "../output/print.ts";
import type { Style } from "../output/style.ts";
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
  examples: { "rnix cron show nightly": "the strip has a mark for each of its last times" },
  async run(io, flags, [name]) {
    const shown = await cronCall<Shown>(io, "show", { name, limit: flags.limit ?? ROWS });
    return print(io, flags, shown, (style) => text(io, shown, style));
  },
});

function text(io: Io, { job, next, runs }: Shown, style: Style): string {
  // A paused or disabled job has no next times.
  const times =
    job.next_at === null || next.length === 0
      ? ""
      : `\nnext\n${nextLines(job, next, style).split("\n").slice(1).join("\n")}`;
  const rows =
    runs.length === 0
      ? "\nit has not been due yet\n"
      : `\n${strip(runs, io, io.stdout)}\n\n${rowsTable(runs.slice(-TABLE), io)}${failedHint(runs)}`;
  return `job ${style.bold(job.name)}\n${fields(jobFields(job), style)}${times}${rows}`;
}
