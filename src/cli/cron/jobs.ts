/** `rnix cron list`, `show`, `rm`, `enable`, `disable` and `run`: looks at jobs, and changes them. */

import { basename } from "node:path";
import { localZone } from "../../lib/time-zone.ts";
import type { JobInfo, LedgerRow } from "../../plugin/index.ts";
import { type Command, defineCommand } from "../command.ts";
import { EXIT } from "../exit.ts";
import { bool, count, type FlagValues, json } from "../flags.ts";
import type { Io } from "../io.ts";
import { printCatalog } from "../output/catalog.ts";
import { oneLine, plural, printable } from "../output/format.ts";
import { jsonText, print } from "../output/print.ts";
import { type Style, styleOf } from "../output/style.ts";
import { type Column, fields } from "../output/table.ts";
import { cronCall } from "./call.ts";
import { jobFields, nextLines, sharedText, stateText } from "./job-text.ts";
import { failedHint, rowsTable, strip } from "./rows.ts";
import { distance, instantText, shortTime, triggerText } from "./when.ts";

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

const ROWS = 30;
/** Rows of the table below the strip. */
const TABLE = 8;

interface Shown {
  job: JobInfo;
  next: string[];
  runs: LedgerRow[];
}

const JOB_ARGUMENT = { name: "JOB", about: "the job's name; rnix cron list shows them" } as const;

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
