/** `rnix cron list`: the jobs, when each runs next, and how its last run ended. */

import { basename } from "node:path";
import type { JobInfo } from "../../plugin/index.ts";
import { defineCommand } from "../command.ts";
import { bool, type FlagValues, json } from "../flags.ts";
import type { Io } from "../io.ts";
import { printCatalog } from "../output/catalog.ts";
import { oneLine, plural, printable } from "../output/format.ts";
import { styleOf } from "../output/style.ts";
import type { Column } from "../output/table.ts";
import { cronCall } from "./call.ts";
import { sharedText } from "./job-text.ts";
import { shortTime, triggerText } from "./when.ts";

const WIDTH = 200;

export const LIST_FLAGS = { "all-projects": bool("the jobs of all projects"), json };

export const list = defineCommand({
  about: "List the jobs: state, next time, how the last run ended",
  flags: LIST_FLAGS,
  examples: {
    "rnix cron list": "the jobs of this project; below it, why a job is paused or blocked",
    "rnix cron list --all-projects --json": "the jobs of all projects, for programs",
  },
  run: listJobs,
});

export async function listJobs(io: Io, flags: FlagValues<typeof LIST_FLAGS>): Promise<number> {
  const all = flags["all-projects"];
  const jobs = await cronCall<JobInfo[]>(io, "list", { all_projects: all });
  const empty = `no jobs${all ? "" : " in this project"}; rnix cron add makes one`;
  const code = printCatalog(io, jobs, columns(Date.now(), all), { ...flags, empty });
  if (flags.json) return code;
  const style = styleOf(io, io.stdout);
  for (const { name, state, reason } of jobs) {
    if (reason === null || state === "done") continue;
    const why = oneLine(reason.startsWith(state) ? reason : `${state}: ${reason}`, WIDTH).replace(/\.$/, "");
    io.stdout.write(`${style.yellow(name)} is ${why}${againText(name, state)}\n`);
  }
  const ofRuns = jobs.filter((job) => job.shared_budget !== undefined);
  for (const { project, shared_budget } of new Map(ofRuns.map((job) => [job.project, job])).values())
    if (shared_budget)
      io.stdout.write(`${all ? `${printable(basename(project))}: ` : ""}${sharedText(shared_budget)}\n`);
  const waiting = jobs.filter(({ last }) => last?.state === "parked").length;
  if (waiting > 0) io.stdout.write(`${plural(waiting, "job waits", "jobs wait")} for an answer: rnix asks\n`);
  return code;
}

function columns(now: number, all: boolean): Column<JobInfo>[] {
  return [
    { title: "PROJECT", value: (job) => basename(job.project), flexible: 8, when: all },
    { title: "NAME", value: ({ name }) => printable(name), flexible: 12 },
    { title: "STATE", value: ({ state }) => state },
    { title: "NEXT", value: ({ next_at }) => (next_at === null ? "-" : shortTime(next_at, now)) },
    {
      title: "LAST",
      value: ({ last }) => (last === null ? "-" : `${shortTime(last.due, now)} ${last.state}`),
    },
    { title: "SCHEDULE", value: ({ trigger }) => printable(triggerText(trigger)), flexible: 10 },
    { title: "INTENT", value: ({ intent }) => intent, flexible: 10, leftOut: 1 },
  ];
}

function againText(name: string, state: JobInfo["state"]): string {
  if (state === "paused") return `; to run it again: rnix cron enable ${name}`;
  return state === "blocked" ? "; it runs again when the cause is gone" : "";
}
