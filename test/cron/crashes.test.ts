import { expect, test } from "bun:test";
import type { StoredJob } from "../../src/cron/job.ts";
import { isSettled } from "../../src/cron/ledger.ts";
import { type Loss, MemoryDisk, ROOT } from "../support/memory-disk.ts";
import { seeded } from "../support/seeded.ts";
import { accountOf, CronWorld } from "./support/cron-world.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** A world on a disk that dies. */
class DyingWorld extends CronWorld {
  disk: MemoryDisk;
  readonly jobsOfIt: StoredJob[] = [];

  readonly random: () => number;

  constructor(random: () => number) {
    const disk = new MemoryDisk((path) => path);
    super({ dir: ROOT, fs: disk, maxWaitMs: HOUR });
    this.disk = disk;
    this.random = random;
    // The kernel's own work between the ledger's rows: it may die before the record exists, and after.
    this.refuses = () => this.disk.tick();
  }

  async setUp(): Promise<void> {
    this.jobsOfIt.push(
      await this.add({
        name: "skip",
        pause_after: 0,
        trigger: { every: "20m" },
        retry: { max: 2, from: "1m", to: "2m" },
      }),
      await this.add({
        name: "all",
        pause_after: 0,
        trigger: { every: "30m" },
        misfire: "all",
        overlap: "queue",
      }),
      await this.add({
        name: "replace",
        pause_after: 0,
        trigger: { every: "45m" },
        overlap: "replace",
        misfire: "none",
      }),
      await this.add({ name: "next", pause_after: 0, trigger: { after: "all", on: "any" }, continue: true }),
    );
    this.takes = ({ job, row }) => {
      const fails = Bun.hash(`${job.name} ${row.due} ${row.attempt}`) % 3n === 0n;
      return {
        ms: job.name === "replace" ? 50 * MINUTE : 5 * MINUTE,
        end: fails ? { exitCode: 1, exitReason: "failed" } : {},
      };
    };
  }

  /** Lets time pass; when the disk dies, the machine starts again after a while with what is left of it. */
  async passThrough(ms: number, loss: Loss): Promise<void> {
    const until = this.clock.monotonic() + ms;
    while (this.clock.monotonic() < until) {
      await this.pass(Math.min(10 * MINUTE, until - this.clock.monotonic()));
      if (this.disk.dead) await this.restart(loss);
    }
  }

  async restart(loss: Loss): Promise<void> {
    await this.kill();
    this.disk = this.disk.after(loss, this.random);
    this.fs = this.disk;
    await this.pass(Math.floor(this.random() * 90) * MINUTE);
    await this.start();
  }

  /** Every instant once, no run twice, and nothing is left open. */
  check(): void {
    for (const job of this.jobsOfIt.filter(({ trigger }) => "every" in trigger))
      expect([job.name, accountOf(this, job, this.clock.now())]).toMatchObject([
        job.name,
        { lost: 0, doubled: 0 },
      ]);
    const runs = this.starts.map(({ job, row }) => `${job.name} ${row.due} ${row.attempt}`);
    expect(runs.length).toBe(new Set(runs).size);
    // Each end of `all` was followed by one instant of `next`.
    const ended = this.rows("all").filter(({ state }) => state === "ran" || state === "failed");
    const followed = this.rows("next").map(({ cause }) => cause?.split(" ")[1] ?? "");
    expect(followed.toSorted()).toEqual(ended.map(({ due }) => due).toSorted());
    // What was begun has ended in the ledger as it did.
    for (const row of this.rows()) {
      if (row.uuid === null || !isSettled(row)) continue;
      const record = this.records.get(row.uuid);
      if (row.state === "ran" && record?.due === row.due) expect(record.outcome.state).toBe("ended");
    }
  }
}

test.each(["nothing", "unsynced", "some"] as const)(
  "a crash at every disk operation, losing %s",
  async (loss) => {
    const whole = new DyingWorld(seeded(1));
    await whole.setUp();
    await whole.start();
    await whole.passThrough(2 * HOUR, loss);
    whole.check();
    const { operations } = whole.disk;
    await whole.stop();
    expect(operations).toBeGreaterThan(100);
    for (let at = 1; at < operations; at += 3) {
      const world = new DyingWorld(seeded(at));
      await world.setUp();
      world.disk.diesAt = world.disk.operations + at;
      await world.start();
      await world.passThrough(4 * HOUR, loss);
      world.check();
      await world.stop();
    }
  },
  120_000,
);

test.each(["nothing", "unsynced", "some"] as const)(
  "random crashes for days, losing %s",
  async (loss) => {
    for (let seed = 1; seed <= 3; seed++) {
      const random = seeded(seed);
      const world = new DyingWorld(random);
      await world.setUp();
      await world.start();
      for (let crash = 0; crash < 6; crash++) {
        world.disk.diesAt = world.disk.operations + 1 + Math.floor(random() * 150);
        await world.passThrough(Math.floor(random() * 12) * HOUR, loss);
      }
      world.disk.diesAt = Number.POSITIVE_INFINITY;
      await world.passThrough(3 * HOUR, loss);
      world.check();
      await world.stop();
    }
  },
  120_000,
);

test("a full disk: nothing runs without its row, the fault is logged once, and no instant is lost", async () => {
  const world = new DyingWorld(seeded(3));
  await world.setUp();
  await world.start();
  await world.pass(HOUR);
  const before = world.starts.length;
  world.disk.refuses = { from: 0, code: "ENOSPC" };
  await world.pass(3 * HOUR);
  expect(world.starts.length).toBe(before);
  expect(world.logged.filter((text) => text.includes("disk is full")).length).toBeLessThan(20);
  world.disk.refuses = undefined;
  await world.pass(3 * HOUR);
  expect(world.starts.length).toBeGreaterThan(before);
  world.check();
  await world.stop();
});
