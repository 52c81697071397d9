/** One job for many agents in four forms, and graphs of many nodes. */
import { describe, expect, test } from "bun:test";
import { soak } from "../support/soak.ts";
import { until } from "../support/until.ts";
import { Machine } from "./support/machine.ts";
import { FORM_NAMES, teamTorture } from "./support/torture/team-torture.ts";

/** More than the steps of a run. */
const NODES = 150;

describe.concurrent("a job for nine agents, while the daemon is killed at random", () => {
  test.each(FORM_NAMES)(
    "as %s: nothing is run twice, nothing is lost",
    async (as) => {
      await using machine = new Machine();
      const report = await teamTorture(machine, as, { seed: 1, kills: soak(2, 4) });
      expect(report.wrong).toEqual([]);
      expect(report.runs).toBeGreaterThan(1);
    },
    120_000,
  );
});

test("a graph of many nodes needs no limit of its own, and a resume asks for the rest only", async () => {
  await using machine = new Machine();
  const model = await machine.model(() => ({ text: "done" }));
  const nodes = Array.from({ length: NODES }, (_, i) => {
    const needs = i < 10 ? "" : `\n    needs: [n${i - 10}]`;
    return `  n${i}:\n    prompt: node ${i}${needs}\n`;
  });
  machine.write("graph.yaml", `nodes:\n${nodes.join("")}`);
  const { stdout } = await machine.ok(["compose", "up", "--detach", "-f", "graph.yaml"]);
  const uuid = stdout.trim().split(" ").at(-1) ?? "";
  await until(() => model.requests.length > 60, "some requests");
  await machine.endDaemon();
  await machine.ok(["compose", "resume", uuid]);
  const { exit_code } = await machine.json(["show", uuid, "--json"]);
  expect(exit_code).toBe(0);
  // At most 16 agents work at the same time, and were cut off.
  expect(model.requests.length).toBeLessThanOrEqual(NODES + 16);
  expect(model.requests.length).toBeGreaterThanOrEqual(NODES);
}, 60_000);
