import { expect, test } from "bun:test";
import { Now } from "../../src/cli/top/now.ts";
import { type Arrangement, rowsOf } from "../../src/cli/top/rows.ts";
import type { ListedAsk, WatchedProc } from "../../src/protocol/methods.ts";
import { listedProc } from "../support/samples.ts";

const GLYPH = { branch: "|- ", lastBranch: "`- ", trunk: "|  " };
const AS_USUAL: Arrangement = { order: 0, isReversed: false, isTree: true, filter: "", folded: new Set() };

function run(pid: number, parent: number | null, more: Partial<WatchedProc> = {}): WatchedProc {
  const of = parent === null ? null : `u${parent}`;
  const info = listedProc({
    pid,
    uuid: `u${pid}`,
    parent_uuid: of,
    created_at_ms: pid,
    intent: `work ${pid}`,
  });
  return { ...info, elapsed_at_ms: 1, ...more };
}

function ask(uuid: string): ListedAsk {
  return {
    ...{
      request_id: "q",
      kind: "question",
      pid: 1,
      uuid,
      agent: "a",
      depth: 0,
      intent: "",
      step: 1,
      call_id: null,
    },
    ...{ asked_at_ms: 0, until_ms: null, call: null, questions: [], state: "live", project: "/p" },
  };
}

const RUNS = [
  run(1, null),
  run(2, 1),
  run(3, 2),
  run(4, 1),
  run(5, null, { cost_usd: 2, is_paused: true }),
  run(6, null),
];

function now(asks: ListedAsk[] = []): Now {
  const state = new Now();
  state.apply({ number: 1, rows: RUNS, gone: null, asks, queues: [] });
  return state;
}

/** "Running 2", "`- 4". */
function shown(state: Now, by: Partial<Arrangement> = {}): string[] {
  return rowsOf(state, { ...AS_USUAL, ...by }, 0, GLYPH).map((row) =>
    row.kind === "group"
      ? `${row.title} ${row.count}`
      : `${row.branch}${row.run.pid}${row.hidden > 0 ? ` +${row.hidden}` : ""}`,
  );
}

test("a tree stands in the group of its root, which waits for a person when a run below it asks", () => {
  const tree = ["1", "|- 4", "`- 2", "   `- 3"];
  expect(shown(now())).toEqual(["Running 2", "6", ...tree, "Parked 1", "5"]);
  expect(shown(now([ask("u3")]))).toEqual(["Waiting for you 1", ...tree, "Running 1", "6", "Parked 1", "5"]);
});

test("rows are flat, folded, sorted and filtered; a run stays that has one below it that fits", () => {
  expect(shown(now(), { isTree: false })).toEqual(["Running 5", "6", "4", "3", "2", "1", "Parked 1", "5"]);
  expect(shown(now(), { folded: new Set(["u1"]), isReversed: true })).toEqual([
    "Running 2",
    "1 +2",
    "6",
    "Parked 1",
    "5",
  ]);
  expect(shown(now(), { filter: "work 3" })).toEqual(["Running 1", "1", "`- 2", "   `- 3"]);
  expect(shown(now(), { filter: "PAUSED" })).toEqual(["Parked 1", "5"]);
});

test("without the daemon nothing is running; a run that is gone is shown as the records have it", () => {
  const state = now();
  state.isLost = true;
  expect(shown(state)[0]).toBe("Running until the daemon was gone 3");
  const end = { status: "failed", state: "dead", ended_at_ms: 9, exit_code: 1 } as const;
  expect(state.apply({ number: 2, rows: [], gone: ["u5", "u6"], asks: null, queues: null })).toBe(true);
  state.ended([run(5, null, end), run(1, null)]);
  expect(shown(state, { folded: new Set(["u1"]) })).toEqual(["Running 1", "1 +2", "Failed 1", "5"]);
});
