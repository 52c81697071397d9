import { describe, expect, test } from "bun:test";
import type { SyscallError } from "../../../../src/plugin/index.ts";
import { failure } from "../../failure.ts";
import { ask } from "../device.ts";
import { type Fault, ModelServer, type Turn } from "../server.ts";
import { type HttpDriver, openDriver } from "./driver.ts";
import { type Asked, type Expected, FAULTS, type FaultCase } from "./faults.ts";
import type { Findings } from "./findings.ts";
import { PATIENCE_MS, RETRIES, type RunOutcome, runOver } from "./run.ts";

/** What is only a failure to the kernel: the driver cannot know when it has waited long enough, or wants more. */
export const SILENCES = {
  hang: "a server that says nothing",
  hang_midway: "a server that falls silent in the middle of the answer",
  empty: "an answer with nothing in it, and nothing after it",
} as const;

/** Every fault, on the driver alone and on a run over it. */
export function describeFaults(driver: HttpDriver, findings: Findings): void {
  for (const one of FAULTS)
    describe(one.title, () => {
      for (const stream of [true, false]) failsTyped(driver, one, stream, findings);
      endsRun(driver, one, findings);
      if (one.expected.retryable && one.where === undefined && !outlasts(one.expected))
        passes(driver, one, findings);
    });
  describe("a run over a server that does not fail, and does not answer", () => silences(driver, findings));
}

/** Half an answer with a call that must never be made, and then the fault. */
function broken(driver: HttpDriver, { fault }: FaultCase): Turn {
  const half = { text: "Half of this", tool_calls: [{ name: "Bash", input: { command: "rm -r x" } }] };
  return fault === undefined ? half : { ...half, fault: fault(driver) };
}

function asked(driver: HttpDriver, one: FaultCase, count: number): Promise<Asked> {
  const turns = Array.from({ length: count }, () => broken(driver, one));
  return one.where === undefined ? ModelServer.start(turns) : one.where(turns);
}

function failsTyped(driver: HttpDriver, one: FaultCase, stream: boolean, findings: Findings): void {
  const expected = stream ? one.expected : (one.inOnePiece ?? one.expected);
  const how = stream ? "streamed" : "in one piece";
  test(`${how}: ${expected.code}, ${expected.retryable ? "may" : "must not"} be tried again`, async () => {
    await using server = await asked(driver, one, 1);
    const file = await openDriver(driver, server.url);
    const error = await failure(ask(file, { stream }));
    expectFailure(error, expected, driver);
    if (server.requests) expect(server.requests.length, "a driver never tries twice").toBeLessThan(2);
    const { signal } = new AbortController();
    expect(String(await file.read(100, signal)), "after an error comes the end").toBe("");
    await file.close();
    findings.note(one.title, driver.title, how, stream ? { code: `\`${error.code}\`` } : undefined);
  });
}

function expectFailure(error: SyscallError, expected: Expected, driver: HttpDriver): void {
  expect(`${error.code}: ${error.message}`).toStartWith(`${expected.code}: `);
  expect(error.retryable).toBe(expected.retryable);
  expect(error.retryAfterMs).toBe(expected.retryAfterMs);
  expect(error.tooLong).toBe(expected.tooLong);
  if (expected.says) expect(error.message).toMatch(expected.says(driver));
}

/** What it asks to be waited for is more than a run waits. */
function outlasts({ retryAfterMs = 0 }: Expected): boolean {
  return retryAfterMs > PATIENCE_MS;
}

function endsRun(driver: HttpDriver, one: FaultCase, findings: Findings): void {
  const { expected } = one;
  const again = expected.retryable && !outlasts(expected) ? RETRIES : 0;
  test(`that stays: a run asks again ${again} times, makes no call of it, and reports it`, async () => {
    await using server = await asked(driver, one, RETRIES + 1);
    const outcome = await runOver(driver, server.url);
    expect(outcome.waitsMs).toHaveLength(again);
    if (expected.retryAfterMs !== undefined)
      for (const waited of outcome.waitsMs) expect(waited).toBeGreaterThanOrEqual(expected.retryAfterMs);
    expect(outcome.made).toEqual([]);
    if (outlasts(expected)) expect(outcome.info).toMatchObject({ exit_code: 75, exit_reason: "suspended" });
    else
      expect(outcome.info).toMatchObject({
        exit_code: 1,
        exit_reason: "llm_error",
        error: { code: expected.code },
      });
    findings.note(one.title, driver.title, "a run", {
      "asked again": again === 0 ? "no" : spacing(outcome, expected),
      "the run, if it stays": verdict(outcome),
    });
  });
}

function passes(driver: HttpDriver, one: FaultCase, findings: Findings): void {
  test("that passes: the run continues, and nothing of the half answer is acted on", async () => {
    await using server = await ModelServer.start([broken(driver, one), { text: "whole" }]);
    const outcome = await runOver(driver, server.url);
    expect(outcome.made).toEqual([]);
    expect(outcome.info).toMatchObject({ exit_code: 0, result: "whole" });
    findings.note(one.title, driver.title, "a run it passes in");
  });
}

function silences(driver: HttpDriver, findings: Findings): void {
  for (const kind of ["hang", "hang_midway"] as const)
    test(SILENCES[kind], async () => {
      const fault: Fault = { kind };
      await using server = await ModelServer.start([{ text: "Half of this", fault }]);
      const outcome = await runOver(driver, server.url, async (clock) => {
        await server.arrived(1);
        await clock.advance(600_000);
      });
      expect(outcome.info).toMatchObject({ exit_reason: "llm_error", error: { code: "TIMEOUT" } });
      expect(await server.requests[0]?.closed).toBe("aborted");
      findings.note(SILENCES[kind], driver.title, "a run", {
        code: "`TIMEOUT`",
        "asked again": "no",
        "the run, if it stays": verdict(outcome),
      });
    });

  test(SILENCES.empty, async () => {
    await using server = await ModelServer.start({ turns: [{}], loop: true });
    const outcome = await runOver(driver, server.url);
    expect(outcome.info).toMatchObject({ exit_reason: "llm_error", error: { code: "DRIVER" } });
    expect(outcome.waitsMs).toHaveLength(RETRIES);
    findings.note(SILENCES.empty, driver.title, "a run", {
      code: "`DRIVER`",
      "asked again": spacing(outcome, {}),
      "the run, if it stays": verdict(outcome),
    });
  });
}

function verdict({ info }: RunOutcome): string {
  return `${info.exit_code} \`${info.exit_reason}\``;
}

/** The waits are random by design; only what the provider has asked for is a fixed part of them. */
function spacing({ waitsMs }: RunOutcome, { retryAfterMs }: Pick<Expected, "retryAfterMs">): string {
  const times = `${waitsMs.length} times`;
  return retryAfterMs === undefined ? times : `${times}, ${retryAfterMs / 1000} s apart`;
}
