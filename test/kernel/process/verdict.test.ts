import { describe, expect, test } from "bun:test";
import { killed, type RunOutcome, verdict } from "../../../src/kernel/process/verdict.ts";
import { SyscallError } from "../../../src/plugin/index.ts";
import type { CheckResult, ChildResult } from "../../../src/store/runs/schema.ts";

const finished: RunOutcome = { kind: "finished" };
const child = (exit_code: number | null): ChildResult => ({
  uuid: "u",
  pid: 2,
  agent: "coder",
  exit_code,
  exit_reason: exit_code === 0 ? "completed" : "timeout",
  tokens_used: 1,
});
const check = (exit_code: number | null): CheckResult => ({ command: "npm test", exit_code });
const broke = (
  reason: "budget_exceeded" | "llm_error" | "max_steps" | "loop_detected" | "circuit_breaker",
): RunOutcome => ({
  kind: "broken",
  reason,
  error: new SyscallError("EXHAUSTED", "x"),
});

describe("the verdict", () => {
  test.each<[string, RunOutcome, CheckResult[], ChildResult[], number, string]>([
    ["an answer", finished, [], [], 0, "completed"],
    ["an answer and passing checks", finished, [check(0), check(0)], [], 0, "completed"],
    ["an answer and a failing check", finished, [check(0), check(1)], [], 1, "check_failed"],
    ["an answer and a check that did not end", finished, [check(null)], [], 1, "check_failed"],
    ["an answer and children that completed", finished, [], [child(0)], 0, "completed"],
    ["an answer and a failed child", finished, [], [child(0), child(1)], 1, "failed"],
    ["an answer and a child that never ended", finished, [], [child(null)], 1, "failed"],
    ["a used-up budget", broke("budget_exceeded"), [], [], 2, "budget_exceeded"],
    ["a failing model", broke("llm_error"), [], [], 1, "llm_error"],
    ["too many steps", broke("max_steps"), [], [], 1, "max_steps"],
    ["a loop", broke("loop_detected"), [], [], 1, "loop_detected"],
    ["the breaker", broke("circuit_breaker"), [], [], 1, "circuit_breaker"],
    ["a suspension", { kind: "stopped", status: { code: 75, reason: "suspended" } }, [], [], 75, "suspended"],
    ["a time-out", { kind: "stopped", status: { code: 1, reason: "timeout" } }, [], [], 1, "timeout"],
    [
      "a kill, whatever the checks said",
      { kind: "stopped", status: killed(2, false) },
      [check(0)],
      [],
      137,
      "killed",
    ],
  ])("%s", (_what, outcome, checks, children, code, reason) => {
    expect(verdict(outcome, checks, children)).toMatchObject({ code, reason });
  });

  test.each([
    [1, false, 143, "terminated"],
    [2, false, 137, "killed"],
    [3, false, 130, "interrupted"],
    [1, true, 143, "killed_while_paused"],
    [2, true, 137, "killed_while_paused"],
    [3, true, 130, "killed_while_paused"],
  ] as const)("signal %i with paused %p is %i %s", (signal, paused, code, reason) => {
    expect(killed(signal, paused)).toMatchObject({ code, reason });
  });
});
