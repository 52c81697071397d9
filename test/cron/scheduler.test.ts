import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { SyscallError } from "../../src/plugin/index.ts";
import { memoryFolder } from "../support/memory-folder.ts";
import { until } from "../support/until.ts";
import { accountOf, CronWorld } from "./support/cron-world.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

let dir: string;
let world: CronWorld;

beforeEach(() => {
  dir = mkdtempSync(join(memoryFolder, "rnix-cron-"));
  world = new CronWorld({ dir });
});
afterEach(async () => {
  await world.stop();
  rmSync(dir, { recursive: true, force: true });
});

describe("an instant", () => {
  test("has a row before its run begins, and ends with its run", async () => {
    await world.add({ trigger: { cron: "0 * * * *", tz: "UTC" } });
    await world.start();
    await world.pass(HOUR);
    expect(world.rows()).toMatchObject([{ due: "2026-01-01T01:00:00.000Z", state: "running", attempt: 1 }]);
    await world.pass(MINUTE);
    expect(world.rows()).toMatchObject([
      {
        state: "ran",
        exit_code: 0,
        exit_reason: "completed",
        result: "done",
        ended: "2026-01-01T01:01:00.000Z",
      },
    ]);
  });

  test("of a one-shot job is its last", async () => {
    await world.add({ trigger: { at: "2026-01-01T05:00", tz: "UTC" } });
    await world.start();
    await world.pass(DAY);
    expect(world.states()).toEqual(["ran"]);
    expect(await world.job()).toMatchObject({ state: "done" });
  });

  test("of a job that has expired is skipped, and the job is done", async () => {
    await world.add({ trigger: { every: "1h" }, expires_at: "2026-01-01T02:30:00Z" });
    await world.start();
    await world.pass(5 * HOUR);
    expect(world.states()).toEqual(["ran", "ran"]);
    expect(await world.job()).toMatchObject({ state: "done", reason: "it has expired" });
  });

  test("of a disabled or removed job is none; a run under way ends as it does", async () => {
    await world.add({ trigger: { every: "1h" } });
    world.takes = () => ({ ms: 30 * MINUTE });
    await world.start();
    await world.pass(HOUR + MINUTE);
    await world.change((job) => Object.assign(job, { state: "disabled" }));
    await world.pass(5 * HOUR);
    expect(world.states()).toEqual(["ran"]);
    await world.change((job) =>
      Object.assign(job, { state: "enabled", since: new Date(world.clock.now()).toISOString() }),
    );
    await world.pass(HOUR);
    await world.jobs().change((list) => void list.jobs.splice(0));
    await world.pass(DAY);
    expect(world.states()).toEqual(["ran", "ran"]);
  });
});

describe("overlap", () => {
  async function overlapping(overlap: "skip" | "queue" | "replace" | "allow"): Promise<string[]> {
    await world.add({ trigger: { every: "1h" }, overlap });
    world.takes = () => ({ ms: 90 * MINUTE });
    await world.start();
    await world.pass(4 * HOUR + MINUTE);
    return world.rows().map(({ state, reason }) => `${state} ${reason ?? ""}`.trim());
  }

  test("skip: an instant during a run is skipped", async () => {
    const rows = await overlapping("skip");
    expect(rows).toEqual([
      "ran",
      "skipped an earlier run is still live, that of 2026-01-01T01:00:00.000Z",
      "running",
      "skipped an earlier run is still live, that of 2026-01-01T03:00:00.000Z",
    ]);
  });

  test("queue: instants run one after the other", async () => {
    expect(await overlapping("queue")).toEqual(["ran", "ran", "running", "due"]);
    await world.pass(3 * HOUR);
    expect(world.rows()[2]).toMatchObject({ state: "ran", started: "2026-01-01T04:00:00.000Z" });
  });

  test("replace: the earlier run is ended", async () => {
    expect(await overlapping("replace")).toEqual([
      "failed replaced by the run of 2026-01-01T02:00:00.000Z",
      "failed replaced by the run of 2026-01-01T03:00:00.000Z",
      "failed replaced by the run of 2026-01-01T04:00:00.000Z",
      "running",
    ]);
    expect(await world.job()).toMatchObject({ state: "enabled" });
  });

  test("allow: runs are live at the same time", async () => {
    expect(await overlapping("allow")).toEqual(["ran", "ran", "running", "running"]);
  });

  test("a parked run holds no later one up, and ends as it does when it was answered", async () => {
    await world.add({ trigger: { every: "1h" } });
    world.takes = ({ row }) => ({ ms: row.due < "2026-01-01T02" ? Number.POSITIVE_INFINITY : MINUTE });
    await world.start();
    await world.pass(HOUR + MINUTE);
    const [first] = world.records.values();
    if (!first) throw new Error("nothing began");
    first.outcome = { ...first.outcome, state: "parked", error: "it waits for an answer" };
    await world.scheduler?.changed(first.uuid);
    await world.pass(HOUR);
    expect(world.states()).toEqual(["parked", "ran"]);
    first.outcome = { ...first.outcome, state: "live" };
    await world.scheduler?.changed(first.uuid);
    expect(world.states()[0]).toBe("running");
    world.end(first.uuid);
    await world.scheduler?.idle();
    expect(world.states()).toEqual(["ran", "ran"]);
  });
});

describe("a daemon that was down", () => {
  async function down(misfire: "none" | "one" | "all", ms: number): Promise<string[]> {
    await world.add({ trigger: { every: "1h" }, misfire });
    await world.start();
    await world.pass(HOUR + 10 * MINUTE);
    await world.stop();
    await world.pass(ms);
    await world.start();
    await world.pass(20 * MINUTE);
    return world.rows().map(({ state, reason }) => `${state} ${reason ?? ""}`.trim());
  }

  test("misfire one: one run makes up for all", async () => {
    expect(await down("one", 4 * HOUR)).toEqual([
      "ran",
      ...Array.from({ length: 3 }, () => "missed made up for by the run of 2026-01-01T05:00:00.000Z"),
      "ran",
    ]);
    expect(world.rows().at(-1)?.late_ms).toBe(10 * MINUTE);
  });

  test("misfire none: all are missed", async () => {
    expect(await down("none", 2 * HOUR)).toEqual([
      "ran",
      "missed noticed 1h10m late, and misfire is none",
      "missed noticed 10m late, and misfire is none",
    ]);
  });

  test("misfire all: each runs, one after the other", async () => {
    expect(await down("all", 4 * HOUR)).toEqual(["ran", "ran", "ran", "ran", "ran"]);
    expect(world.starts.map(({ row }) => row.due)).toEqual(world.rows().map(({ due }) => due));
  });

  test("within its grace an instant is on time", async () => {
    await world.add({ trigger: { every: "1h" }, misfire: "none", grace: "15m" });
    await world.start();
    await world.stop();
    await world.pass(HOUR + 10 * MINUTE);
    await world.start();
    expect(world.rows()).toMatchObject([{ state: "running", late_ms: 10 * MINUTE }]);
  });

  test("for a year leaves one row for the oldest instants, and none is lost", async () => {
    const job = await world.add({ trigger: { every: "5m" }, misfire: "none" });
    await world.start();
    await world.stop();
    await world.pass(365 * DAY);
    await world.start();
    const [range, ...singles] = world.rows();
    expect(singles).toMatchObject([{ state: "running" }]);
    expect(range).toMatchObject({ state: "missed", due: "2026-01-01T00:05:00.000Z" });
    expect(accountOf(world, job, world.clock.now())).toMatchObject({ lost: 0, doubled: 0 });
  });

  test("for a week counts the instants exactly, and names the newest", async () => {
    const job = await world.add({ trigger: { every: "5m" }, misfire: "none" });
    await world.start();
    await world.stop();
    await world.pass(7 * DAY + 2 * MINUTE);
    await world.start();
    const [range, ...singles] = world.rows();
    expect(range).toMatchObject({ state: "missed", count: 7 * 288 - 100 });
    expect(singles).toHaveLength(100);
    expect(accountOf(world, job, world.clock.now())).toMatchObject({ lost: 0, doubled: 0 });
  });
});

describe("the clock", () => {
  test("set back: what ran does not run again, and later instants run", async () => {
    await world.add({ trigger: { every: "1h" } });
    await world.start();
    await world.pass(3 * HOUR + MINUTE);
    world.clock.set(world.clock.now() - 2 * HOUR);
    await world.pass(2 * HOUR);
    expect(world.starts).toHaveLength(3);
    await world.pass(HOUR);
    expect(world.starts).toHaveLength(4);
  });

  test("set ahead by a year and back: no instant of that year is lost", async () => {
    world = new CronWorld({ dir, maxWaitMs: HOUR });
    const job = await world.add({ trigger: { cron: "0 3 * * *", tz: "UTC" }, misfire: "none" });
    await world.start();
    const right = world.clock.now();
    world.clock.set(right + 365 * DAY);
    await world.pass(HOUR);
    expect(world.states().filter((state) => state === "missed").length).toBeGreaterThan(100);
    world.clock.set(right + MINUTE);
    await world.pass(10 * DAY);
    expect(world.starts.map(({ row }) => row.due.slice(0, 10))).toEqual(
      Array.from({ length: 10 }, (_, i) => new Date(right + i * DAY).toISOString().slice(0, 10)),
    );
    expect(accountOf(world, job, world.clock.now())).toMatchObject({ lost: 0, doubled: 0 });
  });

  test("set back while no daemon ran is noticed at the next start", async () => {
    world = new CronWorld({ dir, maxWaitMs: HOUR });
    await world.add({ trigger: { cron: "0 3 * * *", tz: "UTC" }, misfire: "none" });
    await world.start();
    const right = world.clock.now();
    world.clock.set(right + 30 * DAY);
    await world.pass(HOUR);
    await world.stop();
    world.clock.set(right + MINUTE);
    await world.start();
    await world.pass(3 * DAY);
    expect(world.starts.map(({ row }) => row.due.slice(0, 10))).toEqual([
      "2026-01-01",
      "2026-01-02",
      "2026-01-03",
    ]);
  });

  test("that stood still while the machine slept is noticed within the longest wait", async () => {
    await world.add({ trigger: { cron: "0 3 * * *", tz: "UTC" } });
    await world.start();
    // Suspended: timers don't count that time.
    world.clock.set(world.clock.now() + 3 * HOUR + MINUTE / 2);
    await world.pass(10_000);
    expect(world.states()).toEqual(["running"]);
  });

  test.each([
    ["Europe/Berlin", "2026-03-28T12:00Z", "30 2 * * *", ["2026-03-29T01:00", "2026-03-30T00:30"]],
    ["Europe/Berlin", "2026-10-24T12:00Z", "30 2 * * *", ["2026-10-25T00:30", "2026-10-26T01:30"]],
    ["Australia/Lord_Howe", "2026-10-03T10:00Z", "15 2 * * *", ["2026-10-03T15:30", "2026-10-04T15:15"]],
  ])("of %s changes from %s: %s runs once a day", async (tz, at, cron, dues) => {
    world = new CronWorld({ dir, at, maxWaitMs: DAY });
    await world.add({ trigger: { cron, tz } });
    await world.start();
    await world.pass(2 * DAY);
    expect(world.starts.map(({ row }) => row.due.slice(0, 16))).toEqual(dues);
  });
});

describe("a failure", () => {
  const failing = { exitCode: 1, exitReason: "failed", error: "it broke" };

  test("is retried with growing waits where nothing was done, and counts once", async () => {
    await world.add({
      trigger: { every: "6h" },
      retry: { max: 3, from: "1m", to: "3m" },
      on_failure: "mail",
    });
    world.takes = () => ({ ms: 1000, end: failing });
    await world.start();
    await world.pass(6 * HOUR + HOUR);
    expect(world.rows().map(({ attempt, state }) => `${attempt} ${state}`)).toEqual([
      ...["1 failed", "2 failed", "3 failed", "4 failed"],
    ]);
    const waits = world.starts.map(({ row }) => row.started ?? "");
    expect(waits).toEqual([
      ...["2026-01-01T06:00:00.000Z", "2026-01-01T06:01:01.000Z"],
      ...["2026-01-01T06:03:02.000Z", "2026-01-01T06:06:03.000Z"],
    ]);
    expect(world.events).toEqual([{ event: "failed", reason: "it broke", job: "job" }]);
  });

  test("is not retried after a call that acted, unless the job says it is safe", async () => {
    world.takes = () => ({ ms: 1000, end: { ...failing, repeatable: false } });
    await world.add({ name: "a", trigger: { every: "6h" }, retry: { max: 1, from: "1m", to: "1m" } });
    await world.add({
      name: "b",
      trigger: { every: "6h" },
      retry: { max: 1, from: "1m", to: "1m", safe: true },
    });
    await world.start();
    await world.pass(7 * HOUR);
    expect(world.rows("a").map(({ attempt }) => attempt)).toEqual([1]);
    expect(world.rows("b").map(({ attempt }) => attempt)).toEqual([1, 2]);
  });

  test.each(["killed", "terminated", "budget_exceeded", "interrupted"])(
    "by %s is final",
    async (exitReason) => {
      world.takes = () => ({ ms: 1000, end: { exitCode: 2, exitReason } });
      await world.add({ trigger: { every: "6h" }, retry: { max: 3, from: "1m", to: "1m" } });
      await world.start();
      await world.pass(7 * HOUR);
      expect(world.starts).toHaveLength(1);
    },
  );

  test("again and again pauses the job with its reason, until it is enabled", async () => {
    await world.add({ trigger: { every: "1h" }, pause_after: 3 });
    world.takes = () => ({ ms: 1000, end: failing });
    await world.start();
    await world.pass(10 * HOUR);
    expect(world.states()).toEqual(["failed", "failed", "failed"]);
    expect(await world.job()).toMatchObject({
      state: "paused",
      reason: "paused after 3 failures in a row, the last: it broke",
    });
    expect(world.events.map(({ event }) => event)).toEqual(["failed", "failed", "failed", "paused"]);
    await world.change((job) =>
      Object.assign(job, {
        state: "enabled",
        reason: null,
        since: new Date(world.clock.now()).toISOString(),
      }),
    );
    await world.pass(2 * HOUR);
    expect(await world.job()).toMatchObject({ state: "enabled" });
  });

  test("to begin blocks the job with one alert; the next instant tries again", async () => {
    await world.add({ trigger: { every: "1h" } });
    let fault = true;
    world.refuses = () => {
      if (fault) throw new SyscallError("UNAVAILABLE", "no key");
    };
    await world.start();
    await world.pass(3 * HOUR + MINUTE);
    expect(world.states()).toEqual(["blocked", "blocked", "blocked"]);
    expect(world.events).toEqual([{ event: "blocked", reason: "no key", job: "job" }]);
    expect(await world.job()).toMatchObject({ state: "blocked", reason: "no key" });
    fault = false;
    await world.pass(HOUR);
    expect(world.states().at(-1)).toBe("ran");
    expect(await world.job()).toMatchObject({ state: "enabled", reason: null });
  });

  test("for want of a free process waits for one", async () => {
    await world.add({ trigger: { every: "1h" } });
    let full = 3;
    world.refuses = () => {
      if (full-- > 0) throw new SyscallError("EXHAUSTED", "no process is free");
    };
    await world.start();
    await world.pass(HOUR + MINUTE);
    expect(world.rows()).toMatchObject([{ state: "running" }]);
    expect(world.events).toEqual([]);
  });
});

test("a deadline ends the run, and no further attempt begins", async () => {
  await world.add({ trigger: { every: "6h" }, deadline: "10m", retry: { max: 3, from: "1m", to: "1m" } });
  world.takes = () => ({ ms: HOUR });
  await world.start();
  await world.pass(7 * HOUR);
  expect(world.rows()).toMatchObject([{ state: "failed", ended: "2026-01-01T06:10:00.000Z" }]);
  expect(world.rows()[0]?.reason).toContain("deadline");
});

test("events beyond those that may wait are refused and leave no row", async () => {
  const job = await world.add({ trigger: { on_hook: "push" } });
  world.takes = () => ({ ms: Number.POSITIVE_INFINITY });
  const scheduler = await world.start();
  const send = (id: number) => scheduler.accept(job, { cause: `hook ${id}`, queued: true });
  for (let id = 0; id <= 100; id++) {
    await send(id);
    await scheduler.idle();
  }
  await expect(send(101)).rejects.toMatchObject({ code: "EXHAUSTED" });
  // One that was accepted is known, and one by hand is taken.
  expect(await send(7)).toBeNull();
  expect(await scheduler.accept(job, { extra: true })).toMatchObject({ extra: true });
  await scheduler.idle();
  expect(world.states().toSorted()).toEqual([...Array(101).fill("due"), "running"]);
});

test("a run's end is written when what it changed in watched files is known", async () => {
  const job = await world.add({ trigger: { on_change: ["src/**"] } });
  const asked = Promise.withResolvers<void>();
  const known = Promise.withResolvers<void>();
  world.listen = () => ({
    close: () => undefined,
    ranOver: () => {
      asked.resolve();
      return known.promise;
    },
  });
  const scheduler = await world.start();
  await scheduler.accept(job, { cause: "change 1 x", queued: true });
  const passing = world.pass(2 * MINUTE);
  await asked.promise;
  expect(world.states()).toEqual(["running"]);
  known.resolve();
  await passing;
  expect(world.states()).toEqual(["ran"]);
});

test("changed files start a job at most 60 times an hour", async () => {
  const job = await world.add({ trigger: { on_change: ["src/**"] } });
  world.takes = () => ({ ms: 5_000 });
  const scheduler = await world.start();
  for (let change = 1; change <= 150; change++) {
    await scheduler.accept(job, { cause: `change ${change} x`, queued: true });
    await world.pass(MINUTE / 2);
  }
  const states = world.states();
  expect(states.slice(0, 120)).toEqual([...Array(60).fill("ran"), ...Array(60).fill("skipped")]);
  expect(states.slice(121)).toEqual(Array(29).fill("ran"));
  expect(world.rows()[60]?.reason).toContain("60 times in an hour");
});

test("events start a job that a run made at most every five minutes", async () => {
  const creator = { kind: "run", uuid: "u1", agent: "default" } as const;
  const job = await world.add({ trigger: { on_change: ["src/**"] }, creator });
  world.takes = () => ({ ms: 5_000 });
  const scheduler = await world.start();
  for (let change = 1; change <= 7; change++) {
    await scheduler.accept(job, { cause: `change ${change} x`, queued: true });
    await world.pass(MINUTE);
  }
  expect(world.states()).toEqual(["ran", ...Array(4).fill("skipped"), "ran", "skipped"]);
  expect(world.rows()[1]?.reason).toContain("at most every 5m");
});

test("the budgets of a day bound each run, and skip the rest", async () => {
  await world.add({ trigger: { every: "6h" }, budget_per_day: 1000 });
  world.takes = () => ({ ms: MINUTE, end: { tokensUsed: 500 } });
  await world.start();
  await world.pass(DAY + 7 * HOUR);
  expect(world.starts.map(({ maxTokens }) => maxTokens)).toEqual([1000, 500, 1000, 500]);
  expect(world.rows()[2]).toMatchObject({
    state: "skipped",
    reason: "its tokens of the day are used: 1000 of 1000",
  });
});

test("jobs that runs made share a budget of the day, also one that was added again", async () => {
  const creator = { kind: "run", uuid: "u1", agent: "default" } as const;
  await world.add({ name: "mine", trigger: { every: "6h" } });
  for (const name of ["a", "b"]) await world.add({ name, creator, trigger: { every: "6h" } });
  await world.start();
  world.agentBudget = { tokens_used: 999, tokens: 1000 };
  await world.pass(6 * HOUR + MINUTE);
  expect(world.starts.map(({ job }) => job.name)).toEqual(["mine", "a", "b"]);
  world.agentBudget.tokens_used = 1000;
  await world.add({ name: "c", creator, trigger: { every: "6h" } });
  await world.pass(12 * HOUR);
  expect(world.starts.slice(3).every(({ job }) => job.name === "mine")).toBe(true);
  expect(world.rows().at(-1)).toMatchObject({
    job: "c",
    state: "skipped",
    reason: expect.stringMatching(/^the tokens of the day of all jobs .* 1000 of 1000 .*agent_jobs_tokens/),
  });
});

test("a run that was parked or outlived its daemon holds its part of the day's budget", async () => {
  await world.add({ trigger: { every: "6h" }, budget_per_day: 1000, overlap: "allow" });
  world.takes = () => ({ ms: Number.POSITIVE_INFINITY });
  await world.start();
  await world.pass(6 * HOUR + MINUTE);
  await world.kill();
  await world.start();
  await world.pass(6 * HOUR);
  const [first] = world.records.values();
  if (!first) throw new Error("no run");
  first.outcome = { ...first.outcome, state: "parked", tokensUsed: 10 };
  await world.scheduler?.changed(first.uuid);
  await world.pass(6 * HOUR);
  expect(world.starts).toHaveLength(1);
  expect(world.states()).toEqual(["parked", "skipped", "skipped"]);
  // The next day has a budget of its own.
  await world.pass(6 * HOUR);
  expect(world.starts.map(({ maxTokens }) => maxTokens)).toEqual([1000, 1000]);
});

test("a gate skips an instant at no cost, or gives the run its input", async () => {
  await world.add({ trigger: { every: "1h" }, if: "test", if_input: true });
  world.gate = () => ({
    exitCode: world.clock.now() % (2 * HOUR) === 0 ? 0 : 3,
    timedOut: false,
    output: "3 new",
  });
  await world.start();
  await world.pass(2 * HOUR + MINUTE);
  expect(world.rows()).toMatchObject([
    { state: "skipped", reason: "if: ended with 3", uuid: null },
    { state: "ran" },
  ]);
  expect(world.starts.map(({ input }) => input)).toEqual(["3 new"]);
});

test("a gate that can't be run blocks the job instead of being tried all the time", async () => {
  await world.add({ trigger: { every: "1h" }, if: "test" });
  let tries = 0;
  world.gate = () => {
    tries++;
    throw new SyscallError("NOT_FOUND", "its folder is gone");
  };
  await world.start();
  await world.pass(2 * HOUR + MINUTE);
  expect(world.states()).toEqual(["blocked", "blocked"]);
  expect(tries).toBe(2);
  expect(world.events).toEqual([{ event: "blocked", reason: "its folder is gone", job: "job" }]);
});

test("silence is reported once, until a run has succeeded", async () => {
  await world.add({ trigger: { every: "1h" }, expect_every: "3h", pause_after: 0 });
  let works = false;
  world.takes = () => ({ ms: 1000, end: works ? {} : { exitCode: 1, exitReason: "failed" } });
  await world.start();
  await world.pass(8 * HOUR);
  expect(world.events.filter(({ event }) => event === "silent")).toHaveLength(1);
  works = true;
  await world.pass(HOUR + MINUTE);
  expect((await world.job())?.silent).toBeUndefined();
  works = false;
  await world.pass(5 * HOUR);
  expect(world.events.filter(({ event }) => event === "silent")).toHaveLength(2);
});

test("a job after another runs at its end, once", async () => {
  await world.add({ name: "a", trigger: { every: "6h" } });
  await world.add({ name: "b", trigger: { after: "a" } });
  await world.add({ name: "c", trigger: { after: "a", on: "failure" } });
  await world.add({ name: "d", trigger: { after: "b", on: "any" } });
  world.takes = ({ job }) => ({
    ms: 1000,
    end: job.name === "b" ? { exitCode: 1, exitReason: "failed" } : {},
  });
  await world.start();
  await world.pass(13 * HOUR);
  expect(["a", "b", "c", "d"].map((name) => world.states(name))).toEqual([
    ["ran", "ran"],
    ["failed", "failed"],
    [],
    ["ran", "ran"],
  ]);
});

test("a conversation is resumed at each instant, and knows what was passed over", async () => {
  await world.add({ trigger: { every: "1h" }, continue: true, misfire: "none" });
  let used = 0;
  world.takes = () => {
    used += 100;
    return { ms: MINUTE, end: { tokensUsed: used } };
  };
  await world.start();
  await world.pass(HOUR + MINUTE);
  await world.stop();
  await world.pass(2 * HOUR + MINUTE);
  await world.start();
  await world.pass(HOUR);
  expect(world.starts.map(({ uuid }) => uuid)).toEqual([
    world.starts[0]?.uuid ?? "",
    world.starts[0]?.uuid ?? "",
  ]);
  expect(world.starts.map(({ resumes }) => resumes)).toEqual([false, true]);
  expect(world.starts[1]?.passed.map(({ state }) => state)).toEqual(["missed", "missed"]);
  expect(world.rows().map(({ tokens_used }) => tokens_used)).toEqual([100, 0, 0, 100]);
});

test("an answer is delivered until it is accepted", async () => {
  const given: string[] = [];
  world.deliver = async (_job, row, { to, tries }) => {
    if (to === "slow" && tries < 2) throw new Error("not now");
    given.push(`${to} ${row.due.slice(11, 13)}`);
  };
  await world.add({
    trigger: { every: "6h" },
    deliver: [
      { to: "all", when: "always" },
      { to: "slow", when: "on-change" },
      { to: "bad", when: "on-failure" },
    ],
  });
  await world.start();
  await world.pass(13 * HOUR);
  expect(given).toEqual(["all 06", "slow 06", "all 12"]);
  expect(world.rows()[0]?.delivery).toEqual([
    { to: "all", state: "delivered", tries: 1, error: null },
    { to: "slow", state: "delivered", tries: 3, error: null },
  ]);
});

test("of many answers at once, eight are delivered at a time", async () => {
  const release = Promise.withResolvers<void>();
  const [begun, given]: [string[], string[]] = [[], []];
  world.deliver = async ({ name }) => {
    begun.push(name);
    await release.promise;
    given.push(name);
  };
  const names = Array.from({ length: 30 }, (_, i) => `job${i}`);
  for (const name of names)
    await world.add({ name, trigger: { every: "6h" }, deliver: [{ to: "all", when: "always" }] });
  await world.start();
  await world.pass(6 * HOUR + HOUR);
  expect(world.states()).toEqual(names.map(() => "ran"));
  expect(begun).toHaveLength(8);
  release.resolve();
  await until(() => given.length === names.length, "all deliveries");
  expect(given.toSorted()).toEqual(names.toSorted());
});

test("two daemons: one runs the schedules, the other takes over when it ends", async () => {
  await world.add({ trigger: { every: "1h" } });
  const first = await world.start();
  const second = await world.start();
  expect([first.isReady, second.isReady]).toEqual([true, false]);
  // The one whose work it waits for.
  world.scheduler = first;
  await world.pass(2 * HOUR + MINUTE);
  expect(world.starts).toHaveLength(2);
  await first.close();
  world.scheduler = second;
  await world.pass(HOUR);
  expect(second.isReady).toBe(true);
  expect(world.starts).toHaveLength(3);
});

test("1,000 jobs due in one second all run, once", async () => {
  world = new CronWorld({ dir, maxWaitMs: HOUR });
  const first = await world.add({ name: "job0", trigger: { cron: "0 3 * * *", tz: "UTC" } });
  const jobs = Array.from({ length: 1000 }, (_, i) => ({ ...first, name: `job${i}`, id: `of-many-${i}` }));
  await world.jobs().change((list) => void list.jobs.splice(0, 1, ...jobs));
  await world.start();
  await world.pass(3 * HOUR + 2 * MINUTE);
  expect(world.starts).toHaveLength(1000);
  expect(new Set(world.states())).toEqual(new Set(["ran"]));
  for (const job of jobs)
    expect(accountOf(world, job, world.clock.now())).toMatchObject({ lost: 0, doubled: 0 });
});
