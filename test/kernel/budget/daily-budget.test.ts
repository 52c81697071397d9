import { describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type Clock, realClock } from "../../../src/lib/clock.ts";
import { DailySpending, spendingOfAgentJobs } from "../../../src/store/daily-spending.ts";
import { calls, KernelHarness, says, silent, toolDevice } from "../../support/kernel.ts";

const NOON = new Date(2026, 10, 20, 12).getTime();
const price = { input: 1_000_000, output: 1_000_000, cached: 0 };

/** The time of day is the test's; all else passes as it does. */
class Wall implements Clock {
  at = NOON;
  monotonic = realClock.monotonic;
  timer = realClock.timer;

  now(): number {
    return this.at;
  }
}

const book = (h: KernelHarness) => new DailySpending(h.dataDir);
const limits = (h: KernelHarness, more: { tokens_per_day?: number | null; cost_per_day?: number | null }) => {
  const opts = h.opts();
  h.leases--;
  return { ...opts.limits, ...more };
};

describe("the tokens of a day", () => {
  test("are those of all runs of the project; a call that does not fit is not made, and its run ends with exit 2", async () => {
    const clock = new Wall();
    await using h = new KernelHarness({ model: () => says("done"), clock, limits: { tokens_per_day: 600 } });
    const ends = [];
    for (let run = 0; run < 40; run++) ends.push((await h.run("go")).info);
    const refused = ends.filter(({ exit_code }) => exit_code === 2);
    const spent = book(h).spent("2026-11-20").tokens;
    expect(spent).toBe(h.requests.length * 15);
    expect(spent).toBeLessThanOrEqual(600);
    expect(refused.length).toBeGreaterThan(0);
    expect(refused.length).toBeLessThan(40);
    expect(h.requests).toHaveLength(40 - refused.length);
    expect(ends.at(-1)).toMatchObject({
      exit_reason: "budget_exceeded",
      tokens_used: 0,
      context_budget: null,
      error: {
        message: expect.stringMatching(
          /^The project's token budget for a day does not cover another call: \d+ of 600 tokens are used, .* at midnight, local time; tokens_per_day/,
        ),
      },
    });
    // The answer had the room that was left, and no more.
    for (const [index, request] of h.requests.entries())
      expect(request.max_output).toBeLessThanOrEqual(600 - index * 15);
  });

  test("do not include a replay's, and neither does its cost", async () => {
    const clock = new Wall();
    const caps = { tokens_per_day: 1, cost_per_day: 0.01 };
    await using h = new KernelHarness({ model: () => says("done"), clock, limits: caps });
    const { provider } = h.opts();
    h.leases--;
    const { info } = await h.run("go", { provider: { ...provider, plays: true } });
    expect(info).toMatchObject({ exit_code: 0, tokens_used: 15, cost_usd: null });
    expect(book(h).spent("2026-11-20").tokens).toBe(0);
  });

  test("begin again at midnight, also for a run that continues past it", async () => {
    const clock = new Wall();
    const night = toolDevice("Night", () => {
      book(h).add("2026-11-20", { tokens: 5000, cost: 0 });
      clock.at = new Date(2026, 10, 21, 0, 0, 1).getTime();
      return "it is tomorrow";
    });
    let asked = 0;
    await using h = new KernelHarness({
      model: () => (asked++ === 0 ? calls(["Night", {}]) : says("done")),
      clock,
      devices: { "/dev/night": night },
      limits: { tokens_per_day: 12000 },
    });
    expect((await h.run("go")).info.exit_code).toBe(0);
    expect(book(h).spent("2026-11-20").tokens).toBe(5015);
    expect(book(h).spent("2026-11-21").tokens).toBe(15);
  });

  test("count the usage of another kernel during a run", async () => {
    const clock = new Wall();
    const other = toolDevice("Other", () => {
      book(h).add("2026-11-20", { tokens: 10_000, cost: 0 });
      return "busy";
    });
    await using h = new KernelHarness({
      model: () => calls(["Other", {}]),
      clock,
      devices: { "/dev/other": other },
      limits: { tokens_per_day: 10_000 },
    });
    const { info } = await h.run("go");
    expect(info).toMatchObject({ exit_code: 2, exit_reason: "budget_exceeded", tokens_used: 15 });
    expect(h.requests).toHaveLength(1);
  });

  test("count a child's usage once, and end it like any other", async () => {
    const clock = new Wall();
    await using h = new KernelHarness({
      model: ({ intent }) =>
        intent === "parent" && h.requests.length === 1 ? calls(["Agent", { intent: "child" }]) : says("done"),
      clock,
      limits: { tokens_per_day: 100_000 },
    });
    expect((await h.run("parent")).info).toMatchObject({ exit_code: 0, tokens_used: 45 });
    expect(book(h).spent("2026-11-20").tokens).toBe(45);
  });

  test("set in the middle of a day include the day's recorded usage: none of yesterday, a child's once", async () => {
    const clock = new Wall();
    clock.at = NOON - 24 * 3_600_000;
    const days = toolDevice("Sleep", () => {
      clock.at = NOON;
      return "a new day";
    });
    await using h = new KernelHarness({
      model: ({ intent }) => {
        if (intent === "over night" && h.requests.length === 2) return calls(["Sleep", {}]);
        if (intent === "parent" && h.requests.length === 4) return calls(["Agent", { intent: "child" }]);
        return says("done");
      },
      clock,
      devices: { "/dev/sleep": days },
    });
    await h.run("yesterday"); // 15
    await h.run("over night"); // 15, and 15 today
    await h.run("parent"); // 45
    expect(existsSync(join(h.dataDir, "spending"))).toBe(false);
    const { info } = await h.run("now", { limits: limits(h, { tokens_per_day: 60 }) });
    expect(info).toMatchObject({ exit_code: 2, exit_reason: "budget_exceeded" });
    expect(info.error?.message).toContain("60 of 60 tokens are used");
    expect(book(h).spent("2026-11-20").tokens).toBe(60);
    expect((await h.run("now", { limits: limits(h, { tokens_per_day: 100_000 }) })).info.exit_code).toBe(0);
    expect(book(h).spent("2026-11-20").tokens).toBe(75);
    // Without the cap no call is counted or refused.
    expect((await h.run("now", { limits: limits(h, { tokens_per_day: null }) })).info.exit_code).toBe(0);
    expect(book(h).spent("2026-11-20").tokens).toBe(75);
  });

  test("that cannot be written to disk end the run: the limit could not be enforced", async () => {
    const clock = new Wall();
    await using h = new KernelHarness({ model: () => says("done"), clock, limits: { tokens_per_day: 1000 } });
    expect((await h.run("go")).info.exit_code).toBe(0);
    const file = join(h.dataDir, "spending/2026-11-20.jsonl");
    rmSync(file);
    mkdirSync(file);
    const { info } = await h.run("go");
    expect(info).toMatchObject({ exit_code: 1, exit_reason: "record_error" });
  });

  test("reserve what calls under way may use: parallel runs stay within them too", async () => {
    const clock = new Wall();
    await using h = new KernelHarness({
      model: async () => {
        await new Promise((resolve) => setImmediate(resolve));
        return says("done");
      },
      clock,
      limits: { tokens_per_day: 400 },
    });
    const ends = await Promise.all(Array.from({ length: 30 }, () => h.run("go")));
    expect(book(h).spent("2026-11-20").tokens).toBeLessThanOrEqual(400);
    expect(ends.some(({ info }) => info.exit_code === 0)).toBe(true);
    expect(ends.some(({ info }) => info.exit_reason === "budget_exceeded")).toBe(true);
  });
});

test("the tokens of a day of all jobs that runs made are shared by them, also in another kernel", async () => {
  const clock = new Wall();
  const options = { model: () => says("done"), clock, limits: { agent_jobs_tokens_per_day: 600 } };
  const jobOf = (id: string) => ({ id, name: id, due: "2026-11-20T12:00:00Z", attempt: 1 });
  await using first = new KernelHarness(options);
  await using second = new KernelHarness({ ...options, dir: first.dir });
  let requests = 0;
  const ends = [];
  for (const h of [first, second]) {
    for (let n = 0; n < 15; n++)
      ends.push((await h.run("go", { job: { ...jobOf(`${n}`), by_run: true } })).info);
    requests += h.requests.length;
    // Those of the user have no part in it.
    expect((await h.run("go", { job: jobOf("mine") })).info.exit_code).toBe(0);
    const { tokens } = spendingOfAgentJobs(join(h.dir, "user"), h.dataDir).spent("2026-11-20");
    expect(tokens).toBe(requests * 15);
    expect(tokens).toBeLessThanOrEqual(600);
  }
  expect(requests).toBeGreaterThan(15);
  expect(ends.filter(({ exit_code }) => exit_code === 0)).toHaveLength(requests);
  expect(ends.at(-1)?.error?.message).toMatch(
    /^The token budget for a day of all jobs .* agent_jobs_tokens_per_day/,
  );
});

describe("the cost of a day", () => {
  test("needs the model's price, before anything is spent", async () => {
    await using h = new KernelHarness({ model: () => says("done"), limits: { cost_per_day: 1 } });
    const spawned = h.spawn("go");
    await expect(spawned).rejects.toMatchObject({
      code: "INVALID",
      message: expect.stringContaining("cost_per_day"),
    });
    expect(h.requests).toEqual([]);
  });

  test("together with a run's own limit requires a child's model price too", async () => {
    for (const more of [{ max_cost: 1 }, { limits: { cost_per_day: 1 } }]) {
      const priced = { model: "m", price: { input: 1, output: 1, cached: 1 } };
      await using h = new KernelHarness({ model: silent, limits: more.limits });
      const provider = { ...h.opts().provider, ...priced };
      h.leases--;
      const parentPid = await h.spawn("parent", { provider, max_cost: more.max_cost });
      await expect(h.spawn("child", { parentPid })).rejects.toMatchObject({ code: "INVALID" });
    }
  });

  test("is that of all runs together", async () => {
    const clock = new Wall();
    await using h = new KernelHarness({ model: () => says("done"), clock, limits: { cost_per_day: 400 } });
    const provider = { ...h.opts().provider, price };
    h.leases--;
    const ends = [];
    for (let run = 0; run < 20; run++) ends.push((await h.run("go", { provider })).info);
    expect(book(h).spent("2026-11-20").cost).toBe(h.requests.length * 15);
    expect(book(h).spent("2026-11-20").cost).toBeLessThanOrEqual(400);
    expect(h.requests.length).toBeGreaterThan(0);
    expect(ends.at(-1)).toMatchObject({
      exit_code: 2,
      exit_reason: "budget_exceeded",
      error: { message: expect.stringMatching(/cost limit for a day .* \$\d+\.\d{4} of \$400 are used/) },
    });
  });
});
