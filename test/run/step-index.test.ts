import { expect, test } from "bun:test";
import { StepIndex } from "../../src/run/step-index.ts";
import type { StepRecord, ToolCallRecord } from "../../src/run/step-schema.ts";

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

function indexOf(...steps: StepRecord[]) {
  const index = new StepIndex();
  for (const one of steps) index.add(one, "/p");
  return index.lines;
}

test("has a line for each step, with what it did and none of its contents", () => {
  const failed = call("npm test", { state: "failed", error: "exit 1", error_code: "INTERNAL" });
  const lines = indexOf(
    step(1, { tool_calls: [call("ls"), failed] }),
    step(2, { action: "complete", summary: "Done." }),
  );
  expect(lines).toEqual([
    {
      ...{ step: 1, ts: TS, action: "tool_call", summary: "Bash", did: "Bash ls; Bash npm test (failed)" },
      ...{ tool_path: "/dev/shell", has_error: true, duration_ms: 5, token_count: 12 },
      ...{ context: 10, cost_usd: null },
    },
    {
      ...{ step: 2, ts: TS, action: "complete", summary: "Done.", did: "Done." },
      ...{ tool_path: null, has_error: false, duration_ms: 0, token_count: 12 },
      ...{ context: 10, cost_usd: null },
    },
  ]);
});

test("shows an answer that a check rejected as text", () => {
  const lines = indexOf(step(1, { action: "complete" }), step(2, { after_check: true }));
  expect(lines.map(({ action }) => action)).toEqual(["text", "tool_call"]);
});
