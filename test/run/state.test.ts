import { expect, test } from "bun:test";
import { initialState, reduce, startedCalls } from "../../src/run/state.ts";
import type { JournalEntry, StepRecord, ToolCallRecord } from "../../src/run/step-schema.ts";
import { eventsOf } from "../support/saved-history.ts";

const AT = Date.parse("2026-11-20T00:00:00.000Z");
const USAGE = { input_tokens: 10, output_tokens: 2, cached_tokens: 0 };

function at(seconds: number): string {
  return new Date(AT + seconds * 1000).toISOString();
}

function soFar(tokens_used: number) {
  return { tokens_used, cost_usd: 1, steps_used: 3, elapsed_ms: 5 };
}

function call(id: string, started: number, more: Partial<ToolCallRecord> = {}): ToolCallRecord {
  return {
    ...{ id, name: "Bash", path: "/dev/shell", input: {}, result: "", error: null, error_code: null },
    ...{ started_at: at(started), duration_ms: 2000, state: "done", ...more },
  };
}

function step(number: number, more: Partial<StepRecord> = {}): StepRecord {
  return {
    ...{ v: 1, step: number, ts: at(number * 10), messages: [{ role: "assistant", content: "" }] },
    ...{
      raw_response: "",
      action: "text",
      summary: "",
      tool_calls: [],
      usage: USAGE,
      tokens_used: 12,
      ...more,
    },
  };
}

function stateOf(steps: StepRecord[], journal: JournalEntry[] = []) {
  return eventsOf(steps, journal).reduce(reduce, initialState());
}

test("a finished step counts with its calls, which end after its answer", () => {
  const state = stateOf([step(1, { tool_calls: [call("a", 11), call("b", 12)], so_far: soFar(50) })]);
  expect(state).toEqual({
    ...{
      recorded: 1,
      steps: 1,
      gap: null,
      recorded_calls: 2,
      usage: USAGE,
      so_far: soFar(50),
    },
    ...{ last: expect.objectContaining({ step: 1 }), open: [], plan: null },
    ...{ skills: new Set(), children: [], acknowledged: [], delivered: [] },
    ...{ counted_at_ms: AT + 14_000, seen_at_ms: AT + 14_000 },
  });
});

test("the open step adds to it: its answer, its calls once, and what their drivers asked the model", () => {
  const started = {
    t: "call_start",
    step: 2,
    ts: at(22),
    id: "b",
    name: "Bash",
    path: "/dev/shell",
    input: {},
  };
  const message = { role: "assistant", content: "" } as const;
  const state = stateOf(
    [step(1, { so_far: soFar(50) })],
    [
      { t: "answer", v: 1, step: 2, ts: at(21), message, usage: USAGE, so_far: soFar(80) },
      { ...started, t: "call_start", safe: true },
      { ...started, t: "call_start", safe: true, ts: at(23) },
      {
        t: "call_end",
        step: 2,
        ts: at(25),
        call: call("b", 23, { model_use: { requests: 1, usage: USAGE } }),
      },
    ],
  );
  expect(state).toMatchObject({
    ...{ recorded: 1, steps: 2, recorded_calls: 0, so_far: soFar(92) },
    ...{ usage: { input_tokens: 30, output_tokens: 6 }, counted_at_ms: AT + 21_000, seen_at_ms: AT + 25_000 },
  });
  expect(startedCalls(state)).toBe(1);
});

test("of the steps that a fork began with, only the number counts", () => {
  const inherited = step(1, {
    origin_uuid: "00000000-0000-4000-8000-000000000001",
    tool_calls: [call("a", 11)],
  });
  const noUsage = { input_tokens: 0, output_tokens: 0, cached_tokens: 0 };
  expect(stateOf([inherited])).toMatchObject({
    recorded: 1,
    steps: 1,
    recorded_calls: 0,
    usage: noUsage,
    seen_at_ms: 0,
  });
});

test("the last plan and the skills that were loaded are known, and which inbox entries were delivered", () => {
  const plan = (steps: string[], more = {}) => call("p", 11, { name: "Plan", input: { steps }, ...more });
  const skill = (input: Record<string, string>) => call("s", 11, { name: "Skill", input });
  const ended = { uuid: "u", pid: 2, agent: "a", exit_code: 0, exit_reason: "completed", tokens_used: 1 };
  const state = stateOf(
    [
      step(1, {
        tool_calls: [plan(["one"]), skill({ skill: "docs" }), skill({ skill: "x", file: "y" })],
        inbox: [1],
      }),
      step(2, { tool_calls: [plan(["two"]), plan(["refused"], { state: "denied" })], children: [ended] }),
    ],
    [
      {
        t: "answer",
        v: 1,
        step: 3,
        ts: at(31),
        message: { role: "assistant", content: "" },
        usage: USAGE,
        inbox: [2],
      },
    ],
  );
  expect(state).toMatchObject({ plan: { steps: ["two"] }, recorded_calls: 5, children: [ended] });
  expect([[...state.skills], state.acknowledged, state.delivered]).toEqual([["docs"], [1], [2]]);
  expect(state.open.map(({ t }) => t)).toEqual(["read", "answer"]);
});

test("the first step that can't be read is known", () => {
  expect([stateOf([step(1), step(2)]).gap, stateOf([step(1), step(3), step(5)]).gap]).toEqual([null, 2]);
});
