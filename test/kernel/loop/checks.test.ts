import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { bareAgent } from "../../../src/kernel/process/process-spec.ts";
import type { ProcInfo } from "../../../src/kernel/types.ts";
import { realClock, sleep } from "../../../src/lib/clock.ts";
import { SIGTERM } from "../../../src/lib/signals.ts";
import type { LLMRequest } from "../../../src/plugin/index.ts";
import { calls, KernelHarness, type Model, says, script } from "../../support/kernel.ts";
import { crashInto } from "../../support/sealed-record.ts";
import { seeded } from "../../support/seeded.ts";
import { until } from "../../support/until.ts";

// Each attempt runs a program.
setDefaultTimeout(120_000);

const limits = { check_attempts: 3 };
/** Fails until it was run N times. */
const passesAt = (n: number): string =>
  `echo x >> runs; echo "run $(wc -l < runs)"; test $(wc -l < runs) -ge ${n}`;

function runs({ project }: KernelHarness): number {
  const file = join(project, "runs");
  return existsSync(file) ? readFileSync(file, "utf8").split("\n").length - 1 : 0;
}

function lastMessage(request: LLMRequest | undefined): string {
  return request?.messages.at(-1)?.content ?? "";
}

const done: Model = () => says("done");

describe("checks", () => {
  test("are shown to the model at the start", async () => {
    await using h = new KernelHarness({ model: done, limits });
    await h.run("go", { check: ["true", "test 1 = 1"] });
    const head = h.requests[0]?.system_prompt ?? "";
    expect(head).toContain("# Checks\n");
    expect(head).toContain("\n- true\n- test 1 = 1");
  });

  test("one whose variables are empty in the run's environment has not passed", async () => {
    await using h = new KernelHarness({ model: done, limits: { check_attempts: 1 } });
    const { info } = await h.run("go", { check: ["true", "$UNSET_HERE"] });
    expect(info).toMatchObject({ exit_code: 1, exit_reason: "check_failed" });
    expect(info.checks[1]).toMatchObject({ exit_code: 127, output: expect.stringContaining("runs nothing") });
  });

  test("a failed one is shown to the model with its output, and the run continues until they pass", async () => {
    await using h = new KernelHarness({ model: script(says("one"), says("two"), says("three")), limits });
    const { info, events } = await h.run("go", { check: ["true", passesAt(3)] });
    expect(info).toMatchObject({
      exit_code: 0,
      exit_reason: "completed",
      result: "three",
      partial: false,
      steps: 3,
    });
    expect(info.checks.map(({ exit_code, attempt, output }) => [exit_code, attempt, output])).toEqual([
      [0, undefined, undefined],
      [1, undefined, "run 1\n"],
      [0, 2, undefined],
      [1, 2, "run 2\n"],
      [0, 3, undefined],
      [0, 3, undefined],
    ]);
    expect(lastMessage(h.requests[1])).toContain("ended with 1. The end of its output:\nrun 1\n");
    expect(lastMessage(h.requests[1])).toContain("2 attempts are left");
    expect(lastMessage(h.requests[2])).toContain("run 2");
    expect(lastMessage(h.requests[2])).toContain("1 attempt is left");
    const notices = events.flatMap((event) => (event.event === "notice" ? [event.text] : []));
    expect(notices.filter((text) => text.includes("the model is shown its output"))).toHaveLength(2);
  });

  test.each([
    [1, 1],
    [2, 2],
    [3, 3],
  ])("that fail %i times end the run with check_failed after %i attempts", async (attempts, times) => {
    await using h = new KernelHarness({ model: done, limits });
    const { info } = await h.run("go", { check: [passesAt(99)], check_attempts: attempts });
    expect(info).toMatchObject({ exit_code: 1, exit_reason: "check_failed", steps: times, partial: false });
    expect(info.checks).toHaveLength(times);
    expect(runs(h)).toBe(times);
  });

  test("the agent's number of attempts counts before the setting, and the spawner's before both", async () => {
    await using h = new KernelHarness({ model: done, limits });
    const agent = { ...bareAgent("checked"), checks: ["false"], check_attempts: 2 };
    expect((await h.run("go", {}, agent)).info.checks).toHaveLength(2);
    expect((await h.run("go", { check_attempts: 1 }, agent)).info.checks).toHaveLength(1);
  });

  test("an answer by the tool Complete is checked too", async () => {
    const complete: Model = () => calls(["Complete", { result: "complete" }]);
    await using h = new KernelHarness({ model: complete, limits });
    const { info } = await h.run("go", { check: [passesAt(2)] });
    expect(info).toMatchObject({ exit_code: 0, result: "complete", steps: 2, partial: false });
    expect(info.checks).toHaveLength(2);
  });

  test("an answer that does not fit the output schema is corrected before they run", async () => {
    const output_schema = { type: "object", properties: { n: { type: "number" } }, required: ["n"] };
    await using h = new KernelHarness({
      model: script(says("no"), says('{"n":1}'), says('{"n":2}')),
      limits,
    });
    const { info } = await h.run("go", { check: [passesAt(2)], output_schema });
    expect(info).toMatchObject({ exit_code: 0, output: { n: 2 }, steps: 3 });
    expect(runs(h)).toBe(2);
  });

  test("a message that comes during the checks is read before the end, and they run again", async () => {
    await using h = new KernelHarness({ model: done, limits });
    const check = "echo x >> runs; until [ -e sent ]; do sleep 0.02; done";
    const pid = await h.spawn("go", { check: [check] });
    await until(() => runs(h) === 1);
    await h.kernel.ipc.send(0, pid, "one more thing");
    await Bun.write(join(h.project, "sent"), "");
    const { info } = await h.follow(pid);
    expect(info).toMatchObject({ exit_code: 0, steps: 2 });
    expect(lastMessage(h.requests[1])).toContain("one more thing");
    expect(info.checks.map(({ exit_code, attempt }) => [exit_code, attempt])).toEqual([
      [0, undefined],
      [0, 2],
    ]);
  });
});

describe("a limit that is reached before the checks pass ends the run, which names both", () => {
  test.each([
    ["steps", { max_steps: 2 }, 1, "max_steps"],
    ["tokens", { context_budget: 450 }, 2, "budget_exceeded"],
  ])("%s", async (_, more, code, reason) => {
    const named = "false named";
    await using h = new KernelHarness({ model: done, limits: { check_attempts: 100 } });
    const { info } = await h.run("go", { check: [named], ...more });
    expect(info).toMatchObject({ exit_code: code, exit_reason: reason, partial: true });
    expect(info.error?.message).toContain("the check `false named` ended with 1");
    expect(info.checks.length).toBe(info.steps);
  });

  test("time, also in the middle of a check", async () => {
    await using h = new KernelHarness({ model: done, limits: { check_attempts: 100 } });
    const { info } = await h.run("go", {
      check: ["echo x >> runs; test $(wc -l < runs) -lt 2 || exec sleep 60; false"],
      timeout_ms: 1_500,
    });
    expect(info).toMatchObject({ exit_code: 1, exit_reason: "timeout", steps: 2, partial: false });
    expect(info.checks).toHaveLength(2);
  });

  test("a kill", async () => {
    await using h = new KernelHarness({ model: done, limits });
    const pid = await h.spawn("go", { check: ["echo x >> runs; exec sleep 60"] });
    await until(() => runs(h) === 1);
    h.kernel.signals.signalTree(pid, SIGTERM);
    expect((await h.follow(pid)).info).toMatchObject({ exit_code: 143, result: "done", partial: false });
  });
});

describe("a run that is interrupted between its attempts", () => {
  test("suspended in the second: it runs again, and the first still counts", async () => {
    await using h = new KernelHarness({ model: done, limits });
    const check = "echo x >> runs; test $(wc -l < runs) != 2 || exec sleep 60; false";
    const pid = await h.spawn("go", { check: [check] });
    await until(() => runs(h) === 2);
    const { uuid } = h.kernel.processes.info(pid);
    await h.kernel.lifecycle.suspend(pid);
    expect((await h.runs.info(uuid))?.checks).toHaveLength(1);
    const { info } = await h.resumed(uuid);
    expect(info).toMatchObject({ exit_reason: "check_failed", steps: 3 });
    expect(info.checks.map(({ attempt = 1 }) => attempt)).toEqual([1, 2, 3]);
    expect(runs(h)).toBe(4);
  });

  test("ended by a failed check and resumed: its output is shown again, and the attempts start over", async () => {
    await using h = new KernelHarness({ model: done, limits });
    const { info } = await h.run("go", { check: [passesAt(4)] });
    expect(info.exit_reason).toBe("check_failed");
    const { info: second } = await h.resumed(info.uuid);
    expect(second).toMatchObject({ exit_code: 0, steps: 4, checks: [{ exit_code: 0 }] });
    expect(lastMessage(h.requests[3])).toContain("run 3");
  });

  // What kill -9 leaves at a random moment, up to four times in a row.
  test.each(Array.from({ length: 16 }, (_, seed) => seed + 1))(
    "killed at random (seed %i): each attempt is shown once, and none is lost or added",
    async (seed) => {
      const random = seeded(seed);
      // It ends with its call, or a kernel that is killed meanwhile still has the timer of the wait for it.
      const model: Model = async (_request, signal) => {
        await sleep(realClock, random() * 20, signal);
        return says("done");
      };
      const kernels = [new KernelHarness({ model, limits })];
      try {
        let [last] = kernels as [KernelHarness];
        const pid = await last.spawn("go", { check: ["echo seen; false"] });
        const { uuid } = last.kernel.processes.info(pid);
        let info: ProcInfo | null = null;
        for (let crash = 0; crash < 4; crash++) {
          await new Promise((resolve) => setTimeout(resolve, random() * 80));
          const later = new KernelHarness({ model, limits });
          kernels.push(later);
          crashInto(later, last);
          last = later;
          info = await later.runs.info(uuid);
          if (info?.ended_at_ms != null) break;
          info = null;
          await later.kernel.lifecycle.resume(uuid, null, later.opts());
        }
        const live = last.kernel.processes.infos().find((one) => one.uuid === uuid);
        info ??= live ? (await last.follow(live.pid)).info : await last.runs.info(uuid);
        expect(info).toMatchObject({ exit_reason: "check_failed", steps: 3, result: "done" });
        expect(info?.checks.map(({ attempt = 1 }) => attempt)).toEqual([1, 2, 3]);
        const { records } = await last.runs.steps(uuid);
        const messages = records.flatMap((record) => record.messages);
        const messagesWithOutput = messages.filter(
          ({ role, content }) => role === "user" && content.includes("seen"),
        );
        expect(messagesWithOutput).toHaveLength(2);
      } finally {
        for (const kernel of kernels) await kernel[Symbol.asyncDispose]();
      }
    },
  );
});
