/** What must hold when files are forged, disks are full, and the ends of runs and deliveries take long. */

import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { dueRow } from "../../src/cron/due.ts";
import type { LedgerRow } from "../../src/plugin/index.ts";
import { CronWorld, quickFs } from "./support/cron-world.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

let dir: string;
let world: CronWorld;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "rnix-cron-"));
  world = new CronWorld({ dir });
});
afterEach(async () => {
  await world.stop();
  rmSync(dir, { recursive: true, force: true });
});

/** A ledger that came with a cloned project. */
function forge(row: Partial<LedgerRow>): void {
  mkdirSync(join(world.project.dataDir, "cron"), { recursive: true });
  const forged = { ...dueRow({ name: "job", id: "id-1" }, world.clock.now()), ...row };
  writeFileSync(join(world.project.dataDir, "cron", "runs.jsonl"), `${JSON.stringify(forged)}\n`);
}

test.each([
  ["of a job that is not there", { job_id: "none" }, "../../precious"],
  ["of a job", { cause: "hook 1", queued: true as const }, "../../precious"],
  ["with an absolute path", { job_id: "none" }, "/precious"],
  ["with another file of the folder", { job_id: "none" }, "cron/jobs.json"],
  ["with a path that looks right", { job_id: "none" }, "cron/hooks/../../../../precious.body"],
])("a forged row %s can't name a file as a hook's body", async (_, row, body) => {
  const outside = ["precious", "precious.body"].map((name) => join(dir, name));
  for (const file of outside) writeFileSync(file, "mine");
  forge({ ...row, body });
  await world.add({ trigger: { on_hook: "h" } });
  world.takes = () => ({ ms: MINUTE });
  await world.start();
  await world.pass(HOUR);
  expect(outside.map((file) => existsSync(file))).toEqual([true, true]);
  expect(await world.job()).toBeDefined();
  expect(world.starts).toEqual([]);
  expect(world.logged.join()).toContain("damaged");
});

/** Lets the scheduler look at most so often; returns how much time has passed. */
async function looks(count: number): Promise<number> {
  const from = world.clock.monotonic();
  for (let i = 0; i < count; i++) {
    const [next = 0] = world.clock.waits;
    await world.clock.advance(next);
  }
  return world.clock.monotonic() - from;
}

test("a delivery that takes long at its second try keeps no processor busy", async () => {
  let tries = 0;
  let finish: () => void = () => undefined;
  world.deliver = async () => {
    if (++tries === 1) throw new Error("not now");
    await new Promise<void>((resolve) => {
      finish = resolve;
    });
  };
  await world.add({ trigger: { every: "6h" }, deliver: [{ to: "slow", when: "always" }] });
  await world.start();
  await world.pass(6 * HOUR + 2 * MINUTE);
  expect(tries).toBe(2);
  expect(await looks(20)).toBeGreaterThan(20_000);
  finish();
});

test("a run that takes long to end after its deadline keeps no processor busy", async () => {
  await world.add({ trigger: { every: "6h" }, deadline: "1m" });
  world.takes = () => ({ ms: Number.POSITIVE_INFINITY });
  let stops = 0;
  world.endRun = async () => void stops++;
  await world.start();
  await world.pass(6 * HOUR + 2 * MINUTE);
  expect(stops).toBe(1);
  expect(await looks(20)).toBeGreaterThan(20_000);
});

test("an answer whose delivery can't be counted is not delivered again, and is counted later", async () => {
  let isFull = false;
  world.fs = {
    ...quickFs,
    write: (fd, data) => {
      if (isFull) throw Object.assign(new Error("ENOSPC: no space left"), { code: "ENOSPC" });
      return quickFs.write(fd, data);
    },
  };
  let delivered = 0;
  world.deliver = async () => {
    delivered++;
    isFull = true;
  };
  await world.add({
    trigger: { at: "2026-01-01T05:00", tz: "UTC" },
    deliver: [{ to: "mail", when: "always" }],
  });
  await world.start();
  await world.pass(8 * HOUR);
  expect(delivered).toBe(1);
  isFull = false;
  await world.pass(2 * HOUR);
  expect(delivered).toBe(1);
  expect(world.rows()[0]?.delivery).toEqual([{ to: "mail", state: "delivered", tries: 1, error: null }]);
});

test("a run whose end at its deadline fails is ended by a later look", async () => {
  await world.add({ trigger: { at: "2026-01-01T05:00", tz: "UTC" }, deadline: "1m" });
  world.takes = () => ({ ms: Number.POSITIVE_INFINITY });
  const { endRun } = world;
  let tries = 0;
  world.endRun = async (uuid, reason) => {
    if (++tries < 3) throw new Error("its record can't be read");
    return endRun(uuid, reason);
  };
  await world.start();
  await world.pass(5 * HOUR + 3 * MINUTE);
  expect(tries).toBe(3);
  expect(world.rows()).toMatchObject([{ state: "failed", reason: expect.stringContaining("deadline") }]);
});

test("a job whose files were copied from another project is blocked before its gate, and runs nothing", async () => {
  let gates = 0;
  world.gate = () => {
    gates++;
    return { exitCode: 0, timedOut: false, output: "" };
  };
  await world.add({ trigger: { every: "1h" }, project: join(dir, "original"), if: "true" });
  await world.start();
  await world.pass(3 * HOUR);
  expect(world.starts).toEqual([]);
  expect(gates).toBe(0);
  expect(await world.job()).toMatchObject({
    state: "blocked",
    reason: expect.stringContaining("cron enable job"),
  });
  expect(world.events.map(({ event }) => event)).toEqual(["blocked"]);
});

describe("after a run has shortened the ledger", () => {
  const ledger = (): string => join(dir, ".rnix/data/cron/runs.jsonl");

  test.each([
    ["emptied", () => ""],
    ["shortened by its last rows", (text: string) => text.replace(/\n[^\n]*"started":"[\s\S]*/, "\n")],
    ["emptied, while the run is live", () => ""],
  ])("%s: the last instant does not start again, and its use counts in the day", async (how, shorten) => {
    await world.add({ trigger: { every: "6h" }, budget_per_day: 1000 });
    const ms = how.endsWith("live") ? 5 * MINUTE : MINUTE;
    world.takes = () => ({ ms, end: { tokensUsed: 600 } });
    await world.start();
    await world.pass(6 * HOUR + 2 * MINUTE);
    await world.kill();
    expect(world.starts).toHaveLength(1);
    writeFileSync(ledger(), shorten(readFileSync(ledger(), "utf8")));
    await world.start();
    await world.pass(MINUTE);
    expect(world.starts).toHaveLength(1);
    expect(world.logged.join()).toContain("rows were removed from");
    expect(world.rows().at(-1)).toMatchObject({
      state: "skipped",
      reason: expect.stringContaining("removed"),
    });
    await world.kill();
    await world.start();
    await world.pass(6 * HOUR);
    expect(world.starts).toHaveLength(2);
    if (ms === MINUTE) expect(world.starts[1]).toMatchObject({ maxTokens: 400 });
  });

  test("older rows of the day that were removed count in its budget", async () => {
    await world.add({ trigger: { every: "1h" }, budget_per_day: 1000 });
    world.takes = () => ({ ms: MINUTE, end: { tokensUsed: 300 } });
    await world.start();
    await world.pass(2 * HOUR + 2 * MINUTE);
    await world.kill();
    const lines = readFileSync(ledger(), "utf8").trim().split("\n");
    writeFileSync(ledger(), `${lines.slice(-3).join("\n")}\n`);
    await world.start();
    await world.kill();
    await world.start();
    await world.pass(HOUR);
    expect(world.starts.map(({ maxTokens }) => maxTokens)).toEqual([1000, 700, 400]);
  });
});

test("jobs of several folders that share a data folder all run", async () => {
  world = new CronWorld({ dir, dataDir: join(dir, "user") });
  await world.add({ name: "a", trigger: { every: "1h" } });
  await world.add({ name: "b", trigger: { every: "1h" }, project: join(dir, "another") });
  await world.start();
  await world.pass(HOUR + 2 * MINUTE);
  expect([world.states("a"), world.states("b")]).toEqual([["ran"], ["ran"]]);
});
