import { expect, test } from "bun:test";
import { soak } from "../support/soak.ts";
import { Machine } from "./support/machine.ts";
import { torture } from "./support/torture/torture.ts";

const KILLS = soak(6, 25);
/** About 25 s on a quiet machine of two cores. */
const DEADLINE_MS = 180_000;

test(
  `${KILLS} times kill -9, at random points: nothing recorded is lost, nothing is done twice, every run ends`,
  async () => {
    await using machine = new Machine();
    const report = await torture(machine, { seed: 1, kills: KILLS });
    expect(report.wrong).toEqual([]);
    expect(report.kills.daemon + report.kills.inside).toBeGreaterThanOrEqual(KILLS);
    // The system was not idle: calls were cut off, and runs were resumed.
    expect(report.phases["in Bash"]).toBeGreaterThan(0);
    expect(report.calls.unknown).toBeGreaterThan(0);
    expect(report.ends.completed).toBeGreaterThan(0);
    expect(report.resumed).toBeGreaterThan(KILLS);
    expect(report.wentOn).toBeGreaterThan(0);
  },
  DEADLINE_MS,
);
