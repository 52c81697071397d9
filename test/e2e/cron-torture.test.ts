import { expect, test } from "bun:test";
import { CronMachine } from "./support/cron-machine.ts";
import { cronTorture } from "./support/torture/cron-torture.ts";

test("jobs every few seconds while the daemon is killed: no instant is lost, and none runs twice", async () => {
  await using machine = new CronMachine();
  const report = await cronTorture(machine, { jobs: 6, ms: 0, kills: 4, seed: 1, everyS: 1 });
  expect(report).toMatchObject({ lost: 0, doubled: 0, wrong: [] });
  expect(report.ran).toBeGreaterThan(5);
}, 120_000);
