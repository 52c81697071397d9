import { describe, expect, test } from "bun:test";
import {
  beyondLimits,
  type Candidate,
  neededRuns,
  type RetentionLimits,
} from "../../../src/store/runs/retention.ts";
import type { RunRow } from "../../../src/store/runs/run-lists.ts";
import { rowOf } from "../../../src/store/runs/run-row.ts";
import { procInfo } from "../../support/samples.ts";
import { seeded } from "../../support/seeded.ts";

const NONE: RetentionLimits = { retention_age: null, retention_runs: null, retention_size: null };
const NOW = 1_000_000;

/** One run for each size in bytes; the first one ended the longest ago. */
function ended(...runs: [ago: number, bytes: number][]): Candidate[] {
  return runs.map(([ago, bytes], i) => ({ uuid: `u${i}`, endedAtMs: NOW - ago, bytes }));
}

describe("beyond the limits", () => {
  const runs = ended([400, 10], [300, 10], [200, 50], [100, 10]);

  test.each([
    ["nothing, without limits", NONE, []],
    ["what is older than the age", { ...NONE, retention_age: 250 }, ["u0 age", "u1 age"]],
    ["not what is just as old", { ...NONE, retention_age: 300 }, ["u0 age"]],
    ["the oldest beyond the number", { ...NONE, retention_runs: 3 }, ["u0 runs"]],
    ["all but the newest", { ...NONE, retention_runs: 1 }, ["u0 runs", "u1 runs", "u2 runs"]],
    ["the oldest beyond the size", { ...NONE, retention_size: 70 }, ["u0 size"]],
    [
      "what does not fit, and all before it",
      { ...NONE, retention_size: 40 },
      ["u0 size", "u1 size", "u2 size"],
    ],
    [
      "each for its first reason",
      { retention_age: 350, retention_runs: 2, retention_size: 70 },
      ["u0 age", "u1 runs"],
    ],
  ] as const)("is %s", (_what, limits, gone) => {
    expect(beyondLimits(runs, limits, NOW).map(({ uuid, why }) => `${uuid} ${why}`)).toEqual([...gone]);
  });

  test("whatever there is: what stays is within every limit, and nothing goes for nothing", () => {
    for (let seed = 1; seed <= 500; seed++) {
      const random = seeded(seed);
      const int = (below: number): number => Math.floor(random() * below);
      const runs = ended(...Array.from({ length: int(30) }, (): [number, number] => [int(50), int(20)]));
      const maybe = (below: number): number | null => (int(3) === 0 ? null : 1 + int(below));
      const limits: RetentionLimits = {
        retention_age: maybe(50),
        retention_runs: maybe(20),
        retention_size: maybe(150),
      };
      const gone = new Map(beyondLimits(runs, limits, NOW).map(({ uuid, why }) => [uuid, why]));
      const kept = runs.filter(({ uuid }) => !gone.has(uuid));
      const { retention_age: ageMs, retention_runs: most, retention_size: bytes } = limits;
      const sum = kept.reduce((all, run) => all + run.bytes, 0);
      for (const run of kept) if (ageMs !== null) expect(NOW - run.endedAtMs).toBeLessThanOrEqual(ageMs);
      if (most !== null) expect(kept.length).toBeLessThanOrEqual(most);
      if (bytes !== null) expect(sum).toBeLessThanOrEqual(bytes);
      // Nothing goes while something older stays.
      const oldest = Math.min(...kept.map((run) => run.endedAtMs));
      for (const run of runs) if (gone.has(run.uuid)) expect(run.endedAtMs).toBeLessThanOrEqual(oldest);
      const reasons = new Set(gone.values());
      if (reasons.has("age")) expect(ageMs).not.toBeNull();
      if (reasons.has("runs")) expect(kept.length).toBe(most ?? -1);
      if (reasons.has("size")) expect(bytes).not.toBeNull();
    }
  });
});

describe("what is needed", () => {
  const isOpen = ({ state }: RunRow): boolean => state === "running" || state === "suspended";
  const rows = (...runs: [uuid: string, more: Parameters<typeof procInfo>[0]][]): RunRow[] =>
    runs.map(([uuid, more]) => rowOf(procInfo({ uuid, state: "dead", ended_at_ms: 1, ...more })));

  test.each([
    ["nothing, when nothing is open", [["a", {}]], []],
    [
      "what lives, and what is suspended",
      [
        ["a", { state: "running" }],
        ["b", { state: "suspended" }],
      ],
      ["a", "b"],
    ],
    [
      "what it comes from, by parent and by fork, all the way up",
      [
        ["a", {}],
        ["b", { parent_uuid: "a" }],
        ["c", { origin_uuid: "b" }],
        ["d", { parent_uuid: "c", state: "running" }],
      ],
      ["a", "b", "c", "d"],
    ],
    [
      "the children of an agent, and not their children",
      [
        ["a", { state: "suspended" }],
        ["b", { parent_uuid: "a" }],
        ["c", { parent_uuid: "b" }],
      ],
      ["a", "b"],
    ],
    [
      "not what a supervisor has seen end: it would be all that ever was",
      [
        ["a", { state: "running", kind: "supervisor" }],
        ["b", { parent_uuid: "a" }],
      ],
      ["a"],
    ],
    [
      "not its forks",
      [
        ["a", { state: "suspended" }],
        ["b", { origin_uuid: "a" }],
      ],
      ["a"],
    ],
    [
      "itself, when it names what is not there",
      [["a", { state: "running", parent_uuid: "gone" }]],
      ["a", "gone"],
    ],
  ] as [string, [string, Parameters<typeof procInfo>[0]][], string[]][])("is %s", (_what, runs, needed) => {
    expect([...neededRuns(rows(...runs), isOpen)].sort()).toEqual(needed);
  });
});
