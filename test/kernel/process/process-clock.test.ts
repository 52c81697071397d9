import { describe, expect, test } from "bun:test";
import { ProcessClock } from "../../../src/kernel/process/process-activity.ts";
import { SIGKILL, SIGPAUSE, SIGRESUME } from "../../../src/lib/signals.ts";
import { FakeClock, passing, settled } from "../../support/fake-clock.ts";
import { calls, KernelHarness, type Model, says, script, silent, toolDevice } from "../../support/kernel.ts";
import { until } from "../../support/until.ts";

describe("the clock of a process", () => {
  test("pauses while it is stopped; the wall clock runs on", async () => {
    const real = new FakeClock();
    const clock = new ProcessClock(real);
    const started = clock.now();
    await real.advance(10);
    clock.stop();
    clock.stop();
    await real.advance(100);
    expect([clock.monotonic(), clock.now() - started]).toEqual([10, 110]);
    clock.run();
    clock.run();
    await real.advance(5);
    expect([clock.monotonic(), clock.now() - started]).toEqual([15, 115]);
  });

  test("starts from its process's run time before the suspension", async () => {
    const real = new FakeClock();
    const clock = new ProcessClock(real, 400);
    await real.advance(10);
    expect(clock.monotonic()).toBe(410);
    let fired = false;
    clock.timer(5, () => {
      fired = true;
    });
    await real.advance(5);
    expect(fired).toBe(true);
  });

  test("its timers pause with it, and continue with their remaining time", async () => {
    const real = new FakeClock();
    const clock = new ProcessClock(real);
    const fired: string[] = [];
    clock.timer(10, () => fired.push("before"));
    clock.timer(50, () => fired.push("after"));
    await real.advance(30);
    clock.stop();
    expect([fired, real.pending, clock.pending]).toEqual([["before"], 0, 1]);
    clock.timer(5, () => fired.push("set meanwhile"));
    await real.advance(1_000);
    expect(fired).toEqual(["before"]);
    clock.run();
    expect(real.waits).toEqual([5, 20]);
    await real.advance(20);
    expect([fired, real.pending, clock.pending]).toEqual([["before", "set meanwhile", "after"], 0, 0]);
  });

  test("a timer that is cancelled never fires, with the clock running or paused", async () => {
    const real = new FakeClock();
    const clock = new ProcessClock(real);
    const fail = (): never => {
      throw new Error("a cancelled timer fired");
    };
    clock.timer(1, fail).cancel();
    const held = clock.timer(1, fail);
    clock.stop();
    held.cancel();
    clock.timer(1, fail).cancel();
    clock.run();
    await real.advance(10);
    expect([real.pending, clock.pending]).toEqual([0, 0]);
  });
});

/** A tool that does not answer before it is cancelled. */
const hung = toolDevice(
  "Hang",
  (_input, signal) =>
    new Promise((_resolve, reject) =>
      signal.addEventListener("abort", () => reject(signal.reason), { once: true }),
    ),
);

describe("paused time counts towards no deadline", () => {
  const DAY = 86_400_000;
  test.each([
    ["the run's time limit", silent, { timeout_ms: 10_000 }, { exit_reason: "timeout" }],
    ["the model call's total", silent, { limits: { model_timeout: 10_000 } }, { exit_reason: "llm_error" }],
    ["the model's silence", silent, { limits: { model_idle_timeout: 10_000 } }, { exit_reason: "llm_error" }],
    [
      "the tool call's",
      script(calls(["Hang", {}]), says("it hung")),
      { limits: { tool_timeout: 10_000 } },
      { exit_reason: "completed", result: "it hung" },
    ],
  ] as const)("%s", async (_which, model, more, ends) => {
    const clock = new FakeClock();
    await using h = new KernelHarness({
      model,
      clock,
      devices: { "/dev/hang": hung },
      limits: "limits" in more ? more.limits : undefined,
    });
    const pid = await h.spawn("go", "timeout_ms" in more ? more : { timeout_ms: null });
    const run = h.follow(pid);
    await until(() => clock.waits.includes(10_000), "the deadline");
    await clock.advance(4_000);
    h.kernel.processes.kill(pid, SIGPAUSE);
    await clock.advance(DAY);
    expect(h.kernel.processes.info(pid)).toMatchObject({
      is_paused: true,
      elapsed_ms: 4_000,
      exit_reason: null,
    });
    h.kernel.processes.kill(pid, SIGRESUME);
    await clock.advance(5_999);
    expect(h.kernel.processes.info(pid).exit_reason).toBeNull();
    const { info } = await passing(clock, run);
    expect(info).toMatchObject(ends);
    await until(() => h.kernel.processes.count === 0);
    expect(clock.pending).toBe(0);
  });

  test("a program's timeout: it is not ended while its process is paused", async () => {
    const clock = new FakeClock();
    await using h = new KernelHarness({
      model: script(says("done")),
      clock,
      limits: { check_timeout: 10_000 },
    });
    const pid = await h.spawn("go", { check: ["exec sleep 600"], timeout_ms: null });
    const run = h.follow(pid);
    await until(() => clock.waits.includes(10_000), "the check's deadline");
    h.kernel.processes.kill(pid, SIGPAUSE);
    await clock.advance(DAY);
    expect(h.children.list()).toHaveLength(1);
    h.kernel.processes.kill(pid, SIGRESUME);
    await clock.advance(10_000);
    const { info } = await passing(clock, run);
    expect(info).toMatchObject({ exit_reason: "check_failed", checks: [{ exit_code: null }] });
  });

  test("but a paused process that is killed ends: calls that ignore the kill have their grace in real time", async () => {
    const clock = new FakeClock();
    const deaf = toolDevice("Deaf", () => new Promise<string>(() => {}));
    await using h = new KernelHarness({
      model: script(calls(["Deaf", {}])),
      clock,
      devices: { "/dev/deaf": deaf },
    });
    const pid = await h.spawn("go");
    const run = h.follow(pid);
    await until(() => h.kernel.detail(pid).fds.length === 2, "the call");
    h.kernel.processes.kill(pid, SIGPAUSE);
    h.kernel.processes.kill(pid, SIGKILL);
    const { info } = await passing(clock, run);
    expect(info).toMatchObject({ exit_code: 137, exit_reason: "killed_while_paused" });
  });
});

test("a process that finishes while it is paused ends when it is resumed", async () => {
  const asked = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<void>();
  const model: Model = async () => {
    asked.resolve();
    await answer.promise;
    return says("done");
  };
  await using h = new KernelHarness({ model });
  const pid = await h.spawn("go", { check: ["true"] });
  await asked.promise;
  h.kernel.processes.kill(pid, SIGPAUSE);
  answer.resolve();
  await until(() => h.kernel.processes.info(pid).result === "done", "the answer");
  await settled();
  expect(h.kernel.processes.info(pid)).toMatchObject({ is_paused: true, state: "running", checks: [] });
  h.kernel.processes.kill(pid, SIGRESUME);
  expect((await h.follow(pid)).info).toMatchObject({ exit_reason: "completed", checks: [{ exit_code: 0 }] });
});
