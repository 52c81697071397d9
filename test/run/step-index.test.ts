import { expect, test } from "bun:test";
import { eventsOf, type RunEvent } from "../../src/run/events.ts";
import { stepIndex } from "../../src/run/step-index.ts";
import type { JournalEntry, StepRecord, ToolCallRecord } from "../../src/run/step-schema.ts";

const TS = "2026-11-20T00:00:00.000Z";
const usage = { input_tokens: 10, output_tokens: 2, cached_tokens: 0 };

function call(id: string, more: Partial<ToolCallRecord> = {}): ToolCallRecord {
  return {
    ...{ id, name: "Bash", path: "/dev/shell", input: { command: id }, result: "x".repeat(1000) },
    ...{ error: null, error_code: null, started_at: TS, duration_ms: 2.4, state: "done", ...more },
  };
}

function step(number: number, more: Partial<StepRecord> = {}): StepRecord {
  return {
    ...{ v: 1, step: number, ts: TS, messages: [{ role: "assistant", content: "" }], raw_response: "" },
    ...{ action: "tool_call", summary: "Bash", tool_calls: [], usage, tokens_used: 12, ...more },
  };
}

async function* each(events: readonly RunEvent[]): AsyncGenerator<RunEvent> {
  yield* events;
}

function indexOf(steps: StepRecord[], journal: JournalEntry[] = []) {
  return Array.fromAsync(stepIndex(each(eventsOf(steps, journal)), "/p"));
}

test("has a line for each step, with what it did and none of its contents", async () => {
  const failed = call("npm test", { state: "failed", error: "exit 1", error_code: "INTERNAL" });
  const lines = await indexOf([
    step(1, { tool_calls: [call("ls"), failed] }),
    step(2, { action: "complete", summary: "Done." }),
  ]);
  expect(lines).toEqual([
    {
      ...{ step: 1, ts: TS, action: "tool_call", summary: "Bash", did: "Bash ls; Bash npm test (failed)" },
      ...{ tool_path: "/dev/shell", has_error: true, duration_ms: 5, token_count: 12 },
    },
    {
      ...{ step: 2, ts: TS, action: "complete", summary: "Done.", did: "Done." },
      ...{ tool_path: null, has_error: false, duration_ms: 0, token_count: 12 },
    },
  ]);
});

test("shows an answer that a check rejected as text", async () => {
  const lines = await indexOf([step(1, { action: "complete" }), step(2, { after_check: true })]);
  expect(lines.map((line) => ("open" in line ? "open" : line.action))).toEqual(["text", "tool_call"]);
});

test("ends with the open step and its calls so far", async () => {
  const started = { step: 2, ts: TS, name: "Bash", path: "/dev/shell", safe: true };
  const lines = await indexOf(
    [step(1)],
    [
      { t: "answer", v: 1, step: 2, ts: TS, message: { role: "assistant", content: "" }, usage },
      { ...started, t: "call_start", id: "a", input: { command: "a" } },
      { t: "call_end", step: 2, ts: TS, call: call("a") },
      { ...started, t: "call_start", id: "b", input: { command: "b" } },
    ],
  );
  expect(lines.at(-1)).toEqual({
    ...{ step: 2, ts: TS, open: true, did: "Bash a; Bash b (running)", tool_path: "/dev/shell" },
    ...{ has_error: false, duration_ms: 2, token_count: 12 },
  });
});
