import { afterAll, afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { StoredJob } from "../../src/cron/job.ts";
import { memoryFolder } from "../support/memory-folder.ts";
import { seeded } from "../support/seeded.ts";
import { soak } from "../support/soak.ts";
import { accountOf, CronWorld } from "./support/cron-world.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** The short one has a switch to summer or winter time of each zone. */
const DAYS = soak(40, 365);
const FROM = soak("2026-03-01T00:00:00Z", "2026-01-01T00:00:00Z");
const FILE = join(import.meta.dir, "../../docs/reliability.md");

interface Year {
  what: string;
  job: Partial<StoredJob>;
  /** Hours that a run takes; 1 minute by default. */
  hours?: number;
  /** What happens on each day. */
  day?(world: CronWorld, day: number, random: () => number): Promise<void>;
}

const EIGHT_HOURS: Partial<StoredJob> = { trigger: { cron: "0 */8 * * *", tz: "UTC" } };

/** No daemon from Friday evening to Saturday evening. */
async function downOnceAWeek(world: CronWorld, day: number): Promise<void> {
  if (day % 7 === 3) return;
  if (day % 7 !== 2) return world.pass(DAY);
  await world.pass(18 * HOUR);
  await world.stop();
  await world.pass(DAY);
  await world.start();
  await world.pass(6 * HOUR);
}

const YEARS: Year[] = [
  { what: "`0 */4 * * *`, nothing happens", job: { trigger: { cron: "0 */4 * * *", tz: "UTC" } } },
  ...[
    ["Europe/Berlin", "30 2 * * *"],
    ["America/New_York", "30 2 * * *"],
    ["Europe/London", "30 1 * * *"],
    ["Australia/Sydney", "30 2 * * *"],
    ["Australia/Lord_Howe", "15 2 * * *"],
    ["America/Sao_Paulo", "30 0 * * *"],
    ["Asia/Kathmandu", "30 2 * * *"],
  ].map(([tz = "", cron = ""]) => ({ what: `\`${cron}\` in ${tz}`, job: { trigger: { cron, tz } } })),
  { what: "runs longer than the period, `skip`", job: { ...EIGHT_HOURS, overlap: "skip" }, hours: 10 },
  {
    what: "some runs longer than the period, `queue`",
    job: { ...EIGHT_HOURS, overlap: "queue" },
    hours: 7.9,
  },
  { what: "runs longer than the period, `replace`", job: { ...EIGHT_HOURS, overlap: "replace" }, hours: 10 },
  { what: "runs longer than the period, `allow`", job: { ...EIGHT_HOURS, overlap: "allow" }, hours: 10 },
  ...(["none", "one", "all"] as const).map((misfire) => ({
    what: `no daemon for a day of each week, misfire \`${misfire}\``,
    job: { ...EIGHT_HOURS, misfire },
    day: downOnceAWeek,
  })),
  {
    what: "the machine sleeps each night",
    job: EIGHT_HOURS,
    async day(world) {
      await world.pass(12 * HOUR);
      // Timers stand still, and the clock goes on.
      world.clock.set(world.clock.now() + 11 * HOUR);
      await world.pass(HOUR);
    },
  },
  {
    what: "the clock is set ahead by a day and back, each week",
    job: EIGHT_HOURS,
    async day(world, day) {
      if (day % 7 !== 0) return world.pass(DAY);
      world.clock.set(world.clock.now() + DAY);
      await world.pass(HOUR);
      world.clock.set(world.clock.now() - DAY);
      await world.pass(23 * HOUR);
    },
  },
  ...[
    { far: "an hour", by: HOUR, often: "each month", isDay: (day: number) => day % 30 === 0 },
    { far: "a day", by: DAY, often: "each month", isDay: (day: number) => day % 30 === 0 },
    { far: "seven years", by: 7 * 365 * DAY, often: "once", isDay: (day: number) => day === 1 },
  ].flatMap(({ far, by, often, isDay }) =>
    [1, -1].map((way) => ({
      what: `the clock is set ${way > 0 ? "ahead" : "back"} by ${far} for an hour, ${often}`,
      job: EIGHT_HOURS,
      async day(world: CronWorld, day: number) {
        if (!isDay(day)) return world.pass(DAY);
        await world.pass(HOUR);
        world.clock.set(world.clock.now() + way * by);
        await world.pass(HOUR);
        world.clock.set(world.clock.now() - way * by);
        await world.pass(22 * HOUR);
      },
    })),
  ),
  {
    what: "the daemon is killed every third day, at a random time",
    job: EIGHT_HOURS,
    async day(world, day, random) {
      if (day % 3 !== 0) return world.pass(DAY);
      const at = Math.floor(random() * 23 * HOUR);
      await world.pass(at);
      await world.kill();
      await world.pass(MINUTE / 2);
      await world.start();
      await world.pass(DAY - at - MINUTE / 2);
    },
  },
];

let dir: string;
const lines: string[] = [];

beforeEach(() => {
  dir = mkdtempSync(join(memoryFolder, "rnix-year-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

describe("a year of", () => {
  test.each(YEARS.map((year) => [year.what, year] as const))(
    "%s: every instant has its row, and no run is doubled",
    async (what, year) => {
      const world = new CronWorld({ dir, at: FROM, maxWaitMs: year.day ? HOUR : DAY });
      const random = seeded(7);
      const job = await world.add({ ...year.job, pause_after: 0 });
      world.takes = () => ({ ms: (year.hours ?? 0) * HOUR || MINUTE });
      await world.start();
      for (let day = 0; day < DAYS; day++) await (year.day?.(world, day, random) ?? world.pass(DAY));
      const account = accountOf(world, job, world.clock.now());
      // Others wait for their time: a clock set ahead had reached them.
      const hasCome = ({ due }: { due: string }): boolean => Date.parse(due) <= world.clock.now();
      const rows = world.rows().filter(hasCome);
      const count = (state: string): number =>
        rows.filter((row) => row.state === state).reduce((sum, row) => sum + (row.count ?? 1), 0);
      const open = count("running") + count("due");
      const [ran, failed, skipped, missed] = [
        count("ran"),
        count("failed"),
        count("skipped"),
        count("missed"),
      ];
      lines.push(
        `| ${what} | ${account.due} | ${account.accounted} | ${ran + failed + open} | ${skipped} | ${missed} | ${account.doubled} | ${account.lost} |`,
      );
      expect(account).toMatchObject({ lost: 0, doubled: 0, accounted: account.due });
      expect(ran + failed + open + skipped + missed).toBe(account.due);
      expect(world.starts.filter(({ row }) => row.due < job.created_at)).toEqual([]);
      expect(world.starts.filter(({ row }) => hasCome(row)).length).toBe(ran + failed + count("running"));
      await world.stop();
    },
  );
});

/** With UPDATE_DOCS=1 the table is written instead of compared. */
afterAll(() => {
  const BETWEEN = /(<!-- a year of schedules -->\n)[\s\S]*?(<!-- \/a year of schedules -->)/;
  const document = readFileSync(FILE, "utf8");
  const head =
    "| a year of | due | accounted for | ran | skipped | missed | doubled | lost |\n|---|--:|--:|--:|--:|--:|--:|--:|";
  const table = `${head}\n${lines.join("\n")}`;
  const expected = document.replace(BETWEEN, (_all, before, after) => `${before}\n${table}\n\n${after}`);
  // A part of the tests was chosen, or of the year.
  if (lines.length < YEARS.length || DAYS < 365) return;
  if (process.env.UPDATE_DOCS) writeFileSync(FILE, expected);
  else if (document !== expected)
    throw new Error("docs/reliability.md: the table differs. UPDATE_DOCS=1 writes it.");
});
