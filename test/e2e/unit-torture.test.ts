import { expect, test } from "bun:test";
import { soak } from "../support/soak.ts";
import { Machine } from "./support/machine.ts";
import { unitTorture } from "./support/torture/unit-torture.ts";

const KILLS = soak(3, 15);

test(`${KILLS} times kill -9 under runs with units: each end and each line is read once, and nothing is left`, async () => {
  await using machine = new Machine();
  const report = await unitTorture(machine, { seed: 1, kills: KILLS });
  expect(report).toMatchObject({ lost: 0, twice: 0, wrong: [] });
  expect(report.ends.completed).toBeGreaterThan(KILLS);
}, 240_000);
