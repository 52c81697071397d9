import { describe, expect, test } from "bun:test";
import { LoopGuard } from "../../../src/kernel/loop/step.ts";
import { outputName } from "../../../src/os/output.ts";
import type { ToolCallRecord } from "../../../src/store/runs/schema.ts";

function call(part: Partial<ToolCallRecord> = {}): ToolCallRecord {
  return {
    id: "1",
    name: "Read",
    path: "/dev/fs",
    input: { file: "a" },
    result: "text",
    error: null,
    error_code: null,
    started_at: "2027-01-05T00:00:00.000Z",
    duration_ms: 1,
    state: "done",
    ...part,
  };
}

const failed = (name: string, error_code = "NOT_FOUND") =>
  call({ name, state: "failed", result: null, error: "no", error_code });

/** Feeds steps made by `make` until the guard trips; how many that took, and why. */
function feed(guard: LoopGuard, steps: number, make: (step: number) => ToolCallRecord[]): string {
  for (let step = 1; step <= steps; step++) {
    const trip = guard.step(make(step));
    if (trip) return `${trip.reason} at ${step}`;
  }
  return "none";
}

describe("the loop detector", () => {
  test("trips at the threshold of identical action, input and result", () => {
    expect(feed(new LoopGuard(25), 100, () => [call()])).toBe("loop_detected at 25");
  });

  test("calls that differ in id and time only are the same", () => {
    expect(feed(new LoopGuard(5), 10, (step) => [call({ id: String(step), duration_ms: step })])).toBe(
      "loop_detected at 5",
    );
  });

  test("a long output is the same, wherever it is stored", () => {
    const kept = (step: number) =>
      `1\n2\n[… The whole output is in /p/spill/${outputName(`01975a2e-0000-7000-8000-000000000001.${step}`)} …]\n9`;
    expect(feed(new LoopGuard(5), 10, (step) => [call({ result: kept(step) })])).toBe("loop_detected at 5");
    expect(feed(new LoopGuard(5), 50, (step) => [call({ result: `${kept(step)}${step}` })])).toBe("none");
  });

  test("a changing result is progress: polling is no loop", () => {
    expect(feed(new LoopGuard(5), 100, (step) => [call({ result: `line ${step}` })])).toBe("none");
  });

  test("another call in between restarts the count", () => {
    expect(
      feed(new LoopGuard(5), 100, (step) => [call({ input: { file: step % 4 === 0 ? "b" : "a" } })]),
    ).toBe("none");
  });
});

describe("the breaker", () => {
  test("trips when the same failure comes in eight steps in a row", () => {
    expect(feed(new LoopGuard(1000), 100, (step) => [{ ...failed("Edit"), input: { step } }])).toBe(
      "circuit_breaker at 8",
    );
  });

  test("counts a failure once per step, for any number of failed calls", () => {
    expect(
      feed(new LoopGuard(1000), 7, (step) =>
        Array.from({ length: 50 }, () => ({ ...failed("Edit"), input: { step } })),
      ),
    ).toBe("none");
  });

  test("alternating failures trip it too", () => {
    const trip = feed(new LoopGuard(1000), 100, (step) => [
      { ...failed(step % 2 === 0 ? "Edit" : "Read"), input: { step } },
    ]);
    expect(trip).toBe("circuit_breaker at 16");
  });

  test("an occasional success offsets a failure", () => {
    expect(
      feed(new LoopGuard(1000), 200, (step) => [step % 2 === 0 ? failed("Edit") : call({ input: { step } })]),
    ).toBe("none");
  });

  test("denials count, deadlines and cancellations do not", () => {
    const denied = { ...failed("Bash", "PERMISSION"), state: "denied" as const };
    expect(feed(new LoopGuard(1000), 100, (step) => [{ ...denied, input: { step } }])).toBe(
      "circuit_breaker at 8",
    );
    expect(
      feed(new LoopGuard(1000), 100, (step) => [{ ...failed("Bash", "TIMEOUT"), input: { step } }]),
    ).toBe("none");
    expect(feed(new LoopGuard(1000), 100, (step) => [call({ state: "cancelled", input: { step } })])).toBe(
      "none",
    );
  });
});
