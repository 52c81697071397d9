/** Jobs every few seconds on a real clock, and a daemon that is killed at random. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Ledger } from "../../../../src/cron/ledger.ts";
import { isClockTrigger, timetableOf } from "../../../../src/cron/timetable.ts";
import type { JobInfo } from "../../../../src/plugin/index.ts";
import { seeded } from "../../../support/seeded.ts";
import type { CronMachine } from "../cron-machine.ts";

interface CronTortureOptions {
  jobs: number;
  /** It ends after so long, and not before this many kills. */
  ms: number;
  kills: number;
  seed: number;
  /** The shortest period of a job. */
  everyS?: number;
}

export interface CronTortureReport {
  kills: number;
  due: number;
  accounted: number;
  ran: number;
  other: number;
  doubled: number;
  lost: number;
  wrong: string[];
}

/** Adds the jobs, kills the daemon until the time is over, and compares the ledger with the clock and with the runs. */
export async function cronTorture(
  machine: CronMachine,
  { jobs, ms, kills: minKills, seed, everyS = 2 }: CronTortureOptions,
): Promise<CronTortureReport> {
  const random = seeded(seed);
  await machine.scripted(() => ({ text: "done" }));
  const names = Array.from({ length: jobs }, (_, i) => `job${i}`);
  for (const [i, name] of names.entries()) {
    const trigger =
      i % 2 === 0 ? { every: `${everyS + (i % 4)}s` } : { cron: `*/${everyS + 1 + (i % 4)} * * * * *` };
    const misfire = (["one", "none", "all"] as const)[i % 3];
    const overlap = (["skip", "queue", "allow"] as const)[i % 3];
    await machine.add({ name, trigger, misfire, overlap, grace: "1s", pause_after: 0, run: { allow: [] } });
  }
  let kills = 0;
  const over = performance.now() + ms;
  while (performance.now() < over || kills < minKills) {
    await Bun.sleep(300 + random() * 1500);
    machine.killDaemon();
    kills++;
    await machine.run(["daemon", "start"]);
  }
  // The last daemon has looked at each job's clock: what the ledger has up to there is all that may be due.
  const restarted = new Date().toISOString();
  await machine.rows((rows) =>
    names.every((name) => rows.some((row) => row.job === name && (row.until ?? row.due) > restarted)),
  );
  const listed = await machine.schedule<JobInfo[]>("list");
  await Promise.all(listed.map(({ name }) => machine.schedule("disable", name)));
  await machine.rows((rows) => !rows.some(({ state }) => state === "due" || state === "running"));
  return { kills, ...(await compare(machine, listed)) };
}

async function compare(
  machine: CronMachine,
  jobs: readonly JobInfo[],
): Promise<Omit<CronTortureReport, "kills">> {
  const dataDir = join(machine.project, ".rnix", "data");
  const ledger = new Ledger(dataDir);
  await ledger.load();
  const report = { due: 0, accounted: 0, ran: 0, other: 0, doubled: 0, lost: 0, wrong: [] as string[] };
  const runs = runsIn(dataDir);
  for (const job of jobs) {
    if (!isClockTrigger(job.trigger)) continue;
    const table = timetableOf(job.trigger, Date.parse(job.created_at));
    const until = ledger.lastDue(job.id, Date.now());
    for (let at = table.next(Date.parse(job.created_at)); at !== null && at <= until; at = table.next(at)) {
      report.due++;
      if (ledger.accounts(job.id, at)) report.accounted++;
      else report.lost++;
    }
    for (const row of ledger.rows(job.id)) {
      if (row.state === "ran") report.ran++;
      else report.other++;
      const made = runs.get(`${job.id} ${row.due} ${row.attempt}`) ?? [];
      if (made.length > 1) report.doubled++;
      const [run] = made;
      if (row.state === "ran" && (run?.uuid !== row.uuid || run?.exit_code !== 0))
        report.wrong.push(`${job.name} ${row.due} ran, and its record says ${JSON.stringify(run)}`);
      if (row.uuid === null && made.length > 0)
        report.wrong.push(`${job.name} ${row.due} is ${row.state} and has a run`);
    }
  }
  const known = new Set(ledger.all().map((row) => `${row.job_id} ${row.due} ${row.attempt}`));
  for (const key of runs.keys()) if (!known.has(key)) report.wrong.push(`${key} has a run and no row`);
  return report;
}

interface RunOfJob {
  uuid: string;
  exit_code: number | null;
  job: { id: string; due: string; attempt: number } | null;
}

/** The recorded runs of jobs, by job, instant and attempt. */
function runsIn(dataDir: string): Map<string, RunOfJob[]> {
  const folders = readdirSync(join(dataDir, "steps"));
  const infos = folders.flatMap((folder): RunOfJob[] => {
    try {
      return [JSON.parse(readFileSync(join(dataDir, "steps", folder, "proc-info.json"), "utf8"))];
    } catch {
      return []; // Killed before its first record: nothing of it has begun.
    }
  });
  return Map.groupBy(
    infos.filter(({ job }) => job !== null),
    ({ job }) => `${job?.id} ${job?.due} ${job?.attempt}`,
  );
}
