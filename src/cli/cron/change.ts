/** `rnix cron rm`, `enable`, `disable` and `run`. */

import { localZone } from "../../lib/time-zone.ts";
import type { JobInfo, LedgerRow } from "../../plugin/index.ts";
import { type Command, defineCommand } from "../command.ts";
import { EXIT } from "../exit.ts";
import { json } from "../flags.ts";
import { jsonText } from "../output/print.ts";
import { cronCall } from "./call.ts";
import { stateText } from "./job-text.ts";
import { JOB_ARGUMENT } from "./list.ts";
import { distance, instantText } from "./when.ts";

function change(
  op: "remove" | "enable" | "disable",
  texts: Pick<Command, "about" | "examples" | "notes">,
): Command {
  return defineCommand({
    ...texts,
    args: [{ ...JOB_ARGUMENT, many: true }],
    flags: { json },
    async run(io, flags, names) {
      const jobs: JobInfo[] = [];
      for (const name of names) jobs.push(await cronCall<JobInfo>(io, op, { name }));
      if (flags.json) io.stdout.write(jsonText(jobs));
      else for (const job of jobs) io.stderr.write(`job ${job.name}: ${changed(op, job)}\n`);
      return EXIT.ok;
    },
  });
}

function changed(op: string, job: JobInfo): string {
  if (op === "remove") return "removed; its history stays";
  if (job.next_at === null) return stateText(job);
  return `${stateText(job)}; next ${instantText(job.next_at, localZone())}, ${distance(job.next_at, Date.now())}`;
}

export const rm = change("remove", {
  about: "Remove jobs",
  examples: { "rnix cron rm nightly": "a live run of it continues; no run can add it again" },
  notes: ["rnix kill ends a live run of the job."],
});

export const enable = change("enable", {
  about: "Enable jobs, also paused, blocked and ended ones",
  examples: { "rnix cron enable nightly": "times in which it was not enabled are not made up for" },
});

export const disable = change("disable", {
  about: "Disable jobs until rnix cron enable",
  examples: { "rnix cron disable nightly": "a live run of it continues" },
  notes: ["No run can enable a job that you have disabled."],
});

export const run = defineCommand({
  about: "Run a job once now, beside its times",
  args: [JOB_ARGUMENT],
  flags: { json },
  examples: { "rnix cron run nightly": "prints the run's UUID; its policies and budgets apply" },
  async run(io, flags, [name]) {
    const row = await cronCall<LedgerRow>(io, "run", { name });
    if (flags.json) io.stdout.write(jsonText(row));
    else if (row.uuid !== null) {
      io.stderr.write(`job ${row.job} runs; rnix log -f ${row.uuid} follows it\n`);
      io.stdout.write(`${row.uuid}\n`);
    } else io.stderr.write(`job ${row.job}: ${row.state}${row.reason === null ? "" : `: ${row.reason}`}\n`);
    return EXIT.ok;
  },
});
