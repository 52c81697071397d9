import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { CronMachine } from "../test/e2e/support/cron-machine.ts";
import { Machine } from "../test/e2e/support/machine.ts";
import { cronTorture } from "../test/e2e/support/torture/cron-torture.ts";
import { FORM_NAMES, teamTorture } from "../test/e2e/support/torture/team-torture.ts";
import { type TortureReport, torture } from "../test/e2e/support/torture/torture.ts";
import { unitTorture } from "../test/e2e/support/torture/unit-torture.ts";

const USAGE = `bun bench/torture.ts [--kills N] [--seed N] [--rnix PATH] [--units] [--teams [--as FORM]] [--cron MINUTES [--jobs N]]
  --kills  how often a kernel is killed with SIGKILL, 500 by default
  --seed   of the first campaign, 1 by default; each has the next one
  --rnix   the binary to try, ./rnix by default
  --units  instead: runs with background units, 300 kills by default
  --teams  instead: one job for nine agents, 200 kills by default in each form
  --as     only this form: workflow, compose, sh, agents
  --cron   instead: jobs every few seconds for these minutes, while the daemon is killed at random
  --jobs   how many jobs, 100 by default
`;

/** Kills of one campaign: on a machine of its own, which is looked through whole after each. */
const CAMPAIGN = 25;

const { values: flags } = parseArgs({
  options: {
    kills: { type: "string" },
    seed: { type: "string", default: "1" },
    rnix: { type: "string" },
    units: { type: "boolean", default: false },
    teams: { type: "boolean", default: false },
    as: { type: "string" },
    cron: { type: "string" },
    jobs: { type: "string", default: "100" },
    help: { type: "boolean" },
  },
});
if (flags.help) {
  process.stderr.write(USAGE);
  process.exit(0);
}
if (flags.rnix !== undefined) process.env.RNIX_BINARY = resolve(flags.rnix);

if (flags.cron !== undefined) process.exit(await tortureCron(Number(flags.cron), Number(flags.jobs)));

if (flags.units) process.exit(await tortureUnits(Number(flags.kills ?? 300)));

if (flags.teams) process.exit(await tortureTeams(Number(flags.kills ?? 200)));

const kills = Number(flags.kills ?? 500);
const first = Number(flags.seed);
const reports: TortureReport[] = [];
const wrong: string[] = [];
const began = performance.now();
for (let done = 0, seed = first; done < kills; done += CAMPAIGN, seed++) {
  try {
    await using machine = new Machine();
    const report = await torture(machine, { seed, kills: Math.min(CAMPAIGN, kills - done) });
    reports.push(report);
    wrong.push(...report.wrong.map((one) => `seed ${seed}: ${one}`));
  } catch (error) {
    // What a machine has left behind is reported when it is taken away.
    wrong.push(`seed ${seed}: ${String(error)}`);
  }
  process.stderr.write(`\r${Math.min(done + CAMPAIGN, kills)} of ${kills} kills, ${wrong.length} faults`);
}
const minutes = (performance.now() - began) / 60_000;
process.stderr.write("\n");
process.stdout.write(table(reports, minutes));
for (const fault of wrong) process.stdout.write(`- ${fault}\n`);
process.exit(wrong.length === 0 ? 0 : 1);

function table(all: readonly TortureReport[], minutes: number): string {
  const sum = (count: (report: TortureReport) => number): number =>
    all.reduce((total, report) => total + count(report), 0);
  const rows: [string, number | string][] = [
    ["kills of the daemon", sum(({ kills }) => kills.daemon)],
    ["kills of a command with `--no-daemon`", sum(({ kills }) => kills.inside)],
    ["runs resumed by `rnix resume`", sum(({ resumed }) => resumed)],
    ["runs that the daemon resumed by itself", sum(({ wentOn }) => wentOn)],
    ["steps recorded", sum(({ steps }) => steps)],
    ...named(
      "runs",
      all.map(({ ends }) => ends),
    ),
    ...named(
      "lines appended and messages sent",
      all.map(({ calls }) => calls),
    ),
    ...named(
      "hit by a kill",
      all.map(({ phases }) => phases),
    ),
    ["faults", sum(({ wrong }) => wrong.length)],
    ["minutes", minutes.toFixed(1)],
  ];
  return `| what | |\n|---|--:|\n${rows.map(([what, count]) => `| ${what} | ${count.toLocaleString("en")} |\n`).join("")}`;
}

function named(what: string, all: readonly Record<string, number>[]): [string, number][] {
  const sums: Record<string, number> = {};
  for (const counts of all) {
    for (const [name, count] of Object.entries(counts)) sums[name] = (sums[name] ?? 0) + count;
  }
  return Object.entries(sums)
    .toSorted(([, a], [, b]) => b - a)
    .map(([name, count]) => [`${what}: ${name}`, count]);
}

async function tortureUnits(kills: number): Promise<number> {
  await using machine = new Machine();
  const { wrong, ends, ...counts } = await unitTorture(machine, { kills, seed: Number(flags.seed) });
  for (const [what, count] of Object.entries({ ...counts, ...ends }))
    process.stdout.write(`| ${what} | ${count} |\n`);
  for (const fault of wrong) process.stdout.write(`- ${fault}\n`);
  return wrong.length;
}

async function tortureTeams(kills: number): Promise<number> {
  let faults = 0;
  for (const as of FORM_NAMES) {
    if (flags.as !== undefined && flags.as !== as) continue;
    await using machine = new Machine();
    const { wrong, alone, ...counts } = await teamTorture(machine, as, { kills, seed: Number(flags.seed) });
    for (const [what, count] of Object.entries({ ...counts, ...alone }))
      process.stdout.write(`| ${as} | ${what} | ${count} |\n`);
    for (const fault of wrong) process.stdout.write(`- ${as}: ${fault}\n`);
    faults += wrong.length;
  }
  return faults;
}

async function tortureCron(minutes: number, jobs: number): Promise<number> {
  await using machine = new CronMachine();
  const ms = minutes * 60_000;
  const report = await cronTorture(machine, {
    jobs,
    ms,
    kills: 1,
    seed: Number(flags.seed),
    everyS: jobs > 20 ? 8 : 2,
  });
  const { wrong, ...counts } = report;
  for (const [what, count] of Object.entries(counts)) process.stdout.write(`| ${what} | ${count} |\n`);
  for (const fault of wrong) process.stdout.write(`- ${fault}\n`);
  return wrong.length + report.lost + report.doubled === 0 ? 0 : 1;
}
