import { describe, expect, test } from "bun:test";
import { appendFileSync, cpSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { AgentInfo, SkillInfo } from "../../src/kernel/types.ts";
import type { LLMRequest } from "../../src/plugin/index.ts";
import { FakeClock } from "../support/fake-clock.ts";
import {
  calls,
  KernelHarness,
  type Model,
  says,
  script,
  silent,
  toolDevice,
  usage,
} from "../support/kernel.ts";
import { crashInto } from "../support/sealed-record.ts";
import { until } from "../support/until.ts";

const READ_ONLY = { annotations: { readOnlyHint: true } };

async function uuidOf(h: KernelHarness, pid: number): Promise<string> {
  return h.kernel.processes.info(pid).uuid;
}

async function resume(
  h: KernelHarness,
  uuid: string,
  o: { input?: string } = {},
  agent: AgentInfo | null = null,
): Promise<number> {
  return (await h.kernel.lifecycle.resume(uuid, agent, h.opts(), o)).pid;
}

function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) =>
    signal.addEventListener("abort", () => reject(signal.reason), { once: true }),
  );
}

/** A model that is silent at its `nth` call, and plays the others. */
function silentAt(nth: number, model: Model): Model {
  let call = 0;
  return (request, signal) => (++call === nth ? silent(request, signal) : model(request, signal));
}

/** The later request begins with the whole of the earlier: what a provider has cached of it still counts. */
function expectGoesOn(later: LLMRequest | undefined, earlier: LLMRequest | undefined): void {
  expect(later?.system_prompt).toBe(earlier?.system_prompt ?? "");
  expect(later?.tools).toEqual(earlier?.tools ?? []);
  const before = earlier?.messages ?? [];
  expect(JSON.stringify(later?.messages.slice(0, before.length))).toBe(JSON.stringify(before));
}

describe("a run that was suspended resumes", () => {
  test("in its first model call: the same question is sent again, by a new PID of the same UUID", async () => {
    await using h = new KernelHarness({ model: silentAt(1, script(says("done"))) });
    const pid = await h.spawn("go", { input: "attached text" });
    await until(() => h.requests.length === 1);
    const uuid = await uuidOf(h, pid);
    expect(await h.kernel.lifecycle.suspend(pid)).toMatchObject({ code: 75, reason: "suspended" });
    const { info } = await h.resumed(uuid);
    expect(info).toMatchObject({ uuid, exit_code: 0, result: "done", steps: 1, state: "zombie" });
    expect(info.pid).toBeGreaterThan(pid);
    expect(h.requests[1]?.messages).toEqual(h.requests[0]?.messages ?? []);
    expectGoesOn(h.requests[1], h.requests[0]);
    expect((await h.runs.steps(uuid)).records.map(({ step }) => step)).toEqual([1]);
  });

  test("in a later model call: its conversation, steps, tokens and calls continue", async () => {
    const act = toolDevice("Act", () => "acted");
    const answers = script(calls(["Act", { n: 1 }]), says("done"));
    await using h = new KernelHarness({ model: silentAt(2, answers), devices: { "/dev/act": act } });
    const pid = await h.spawn("go");
    await until(() => h.requests.length === 2);
    const uuid = await uuidOf(h, pid);
    await h.kernel.lifecycle.suspend(pid);
    const { info } = await h.resumed(uuid);
    expect(info).toMatchObject({ exit_code: 0, steps: 2, tool_calls: 1, tokens_used: 30 });
    expect(info.usage).toEqual({ input_tokens: 20, output_tokens: 10, cached_tokens: 0 });
    expectGoesOn(h.requests[2], h.requests[1]);
    expect(h.requests[2]?.messages).toHaveLength(3);
  });

  test("in a tool: its model learns which call was cut off and which was never begun", async () => {
    let made = 0;
    const hang = toolDevice("Hang", (_input, signal) => {
      made++;
      return untilAborted(signal);
    });
    await using h = new KernelHarness({
      model: script(calls(["Hang", {}], ["Hang", {}]), says("done")),
      devices: { "/dev/hang": hang },
    });
    const pid = await h.spawn("go");
    await until(() => made === 1);
    const uuid = await uuidOf(h, pid);
    await h.kernel.lifecycle.suspend(pid, { reason: "lunch", wake: { on: "at", at_ms: 7 } });
    expect(await h.runs.info(uuid)).toMatchObject({
      state: "suspended",
      suspended: { reason: "lunch", wake: { on: "at", at_ms: 7 } },
    });
    expect((await h.resumed(uuid)).info).toMatchObject({ exit_code: 0, suspended: null });
    expect(made).toBe(1);
    const [, , first, second] = h.requests[1]?.messages ?? [];
    expect(first?.content).toContain("may have taken effect in part");
    expect(second?.content).toContain("nothing was done");
  });

  test("as often as it is suspended", async () => {
    const look = toolDevice("Look", () => "seen", READ_ONLY);
    let call = 0;
    const model: Model = (request, signal) => {
      call++;
      if (call % 2 === 1) return silent(request, signal);
      return call < 8 ? calls(["Look", { call }]) : says("done");
    };
    await using h = new KernelHarness({ model, devices: { "/dev/look": look } });
    let pid = await h.spawn("go");
    const uuid = await uuidOf(h, pid);
    for (let cut = 1; cut <= 4; cut++) {
      await until(() => h.requests.length === cut * 2 - 1);
      await h.kernel.lifecycle.suspend(pid);
      pid = await resume(h, uuid);
    }
    await until(() => h.kernel.processes.count === 0);
    expect(await h.runs.info(uuid)).toMatchObject({ exit_code: 0, result: "done", steps: 4 });
    for (const [at, request] of h.requests.entries()) if (at > 0) expectGoesOn(request, h.requests[at - 1]);
    expect((await h.runs.steps(uuid)).records.map(({ step }) => step)).toEqual([1, 2, 3, 4]);
  });

  test("with its limits, less what it had used", async () => {
    const look = toolDevice("Look", () => "seen", READ_ONLY);
    const answers = script(calls(["Look", { n: 1 }]), calls(["Look", { n: 2 }]), says("never"));
    await using h = new KernelHarness({ model: silentAt(2, answers), devices: { "/dev/look": look } });
    const pid = await h.spawn("go", { max_steps: 3 });
    await until(() => h.requests.length === 2);
    const uuid = await uuidOf(h, pid);
    await h.kernel.lifecycle.suspend(pid);
    // The step that was cut off was a step too.
    const { info } = await h.resumed(uuid);
    expect(info).toMatchObject({ exit_code: 1, exit_reason: "max_steps", max_steps: 3, steps: 2 });
    const more = await h.kernel.lifecycle.resume(uuid, null, h.opts({ max_steps: 10 }));
    expect(more.step).toBe(2);
    expect((await h.follow(more.pid)).info).toMatchObject({
      exit_code: 0,
      result: "never",
      max_steps: 10,
      steps: 3,
    });
  });

  test("with the time that it ran, and without the time that it was suspended", async () => {
    const clock = new FakeClock();
    await using h = new KernelHarness({ model: silent, clock });
    const pid = await h.spawn("go", { timeout_ms: 10_000 });
    await until(() => h.requests.length === 1);
    const uuid = await uuidOf(h, pid);
    await clock.advance(6_000);
    await h.kernel.lifecycle.suspend(pid);
    await until(() => h.kernel.processes.count === 0);
    await clock.advance(3_600_000);
    const run = h.follow(await resume(h, uuid));
    await until(() => h.requests.length === 2);
    expect(h.kernel.processes.info(2)).toMatchObject({
      elapsed_ms: 6_000,
      created_at_ms: Date.UTC(2026, 0, 1),
    });
    await clock.advance(3_999);
    expect(h.kernel.processes.info(2).state).toBe("running");
    await clock.advance(1);
    expect((await run).info).toMatchObject({ exit_reason: "timeout", elapsed_ms: 10_000 });
  });

  test("with its rights, its skills and its plan", async () => {
    const skill: SkillInfo = {
      name: "care",
      description: "how to be careful",
      dir: "",
      allowedTools: ["Look"],
      body: async () => "Be careful.",
    };
    const agent: AgentInfo = {
      name: "careful",
      description: "",
      instructions: "You are careful.",
      skills: [],
      deferredSkills: [skill],
      allowedTools: ["*"],
      checks: [],
      source: "test",
    };
    const answers = script(
      calls(["Plan", { steps: ["look", "act"] }], ["Skill", { skill: "care" }]),
      calls(["Act", {}], ["Look", {}], ["Plan", { steps: ["other"] }]),
      says("done"),
    );
    await using h = new KernelHarness({
      model: silentAt(2, answers),
      devices: {
        "/dev/look": toolDevice("Look", () => "seen", READ_ONLY),
        "/dev/act": toolDevice("Act", () => "acted"),
      },
    });
    const pid = await h.spawn("go", {}, agent);
    await until(() => h.requests.length === 2);
    const before = h.kernel.processes.info(pid);
    await h.kernel.lifecycle.suspend(pid);
    const again = await resume(h, before.uuid, {}, { ...agent, instructions: "You are another agent." });
    expect(h.kernel.processes.info(again)).toMatchObject({
      agent: "careful",
      skills: ["care"],
      permissions: before.permissions,
      allowed_tools: before.allowed_tools,
    });
    await h.follow(again);
    expectGoesOn(h.requests[2], h.requests[1]);
    const record = (await h.runs.steps(before.uuid)).records[1];
    expect(record?.tool_calls.map(({ state }) => state)).toEqual(["done", "done", "done"]);
    expect(record?.action).toBe("replan");
  });

  test("with the tools that it was shown, though one was removed and another was added", async () => {
    const gone = toolDevice("Gone", () => "there", READ_ONLY);
    const fresh = toolDevice("Fresh", () => "fresh", READ_ONLY);
    const answers = script(calls(["Gone", {}], ["Fresh", {}]), says("done"));
    await using first = new KernelHarness({ model: silent, devices: { "/dev/gone": gone } });
    await using second = new KernelHarness({ model: answers, devices: { "/dev/fresh": fresh } });
    const pid = await first.spawn("go");
    await until(() => first.requests.length === 1);
    const uuid = await uuidOf(first, pid);
    await first.kernel.lifecycle.suspend(pid);
    crashInto(second, first);
    await second.resumed(uuid);
    const shown = first.requests[0]?.tools?.map(({ name }) => name) ?? [];
    expect(second.requests[0]?.tools?.map(({ name }) => name)).toEqual([...shown, "Fresh"]);
    expect((await second.runs.steps(uuid)).records[0]?.tool_calls.map(({ state }) => state)).toEqual([
      "failed",
      "done",
    ]);
  });

  test("with its checks, which its agent no longer has", async () => {
    await using h = new KernelHarness({ model: silentAt(1, script(says("done"))) });
    const pid = await h.spawn("go", { check: ["false"] });
    await until(() => h.requests.length === 1);
    const uuid = await uuidOf(h, pid);
    await h.kernel.lifecycle.suspend(pid);
    expect((await h.resumed(uuid)).info).toMatchObject({ exit_reason: "check_failed" });
  });

  test("with the messages that it was sent and had not seen", async () => {
    await using h = new KernelHarness({ model: silentAt(1, script(says("done"))) });
    const pid = await h.spawn("go");
    await until(() => h.requests.length === 1);
    const uuid = await uuidOf(h, pid);
    await h.kernel.ipc.send(0, pid, "hear me");
    await h.kernel.lifecycle.suspend(pid);
    await h.resumed(uuid);
    expect(h.requests[1]?.messages).toHaveLength(2);
    expect(h.requests[1]?.messages[1]?.content).toContain("hear me");
    expect((await h.runs.inbox(uuid)).unread).toEqual([]);
  });
});

describe("a run whose kernel was killed resumes", () => {
  /** A run that is killed while its tool is at work, and the kernel that resumes it. */
  async function killedIn(annotations: object) {
    let made = 0;
    const hang = toolDevice("Act", (_input, signal) => (++made === 1 ? untilAborted(signal) : "acted"), {
      annotations,
    });
    const answers = script(calls(["Act", { n: 1 }]));
    const first = new KernelHarness({
      model: answers,
      devices: { "/dev/act": hang },
      limits: { tool_timeout: 2_000 },
    });
    const second = new KernelHarness({ model: script(says("done")), devices: { "/dev/act": hang } });
    const pid = await first.spawn("go");
    await until(() => made === 1);
    const uuid = await uuidOf(first, pid);
    crashInto(second, first);
    const { info } = await second.resumed(uuid);
    await first[Symbol.asyncDispose]();
    return { h: second, info, made, lastMessage: second.requests[0]?.messages.at(-1)?.content ?? "" };
  }

  for (const hint of ["readOnlyHint", "idempotentHint"]) {
    test(`in a call with ${hint}: it is repeated`, async () => {
      const { h, info, made, lastMessage } = await killedIn({ [hint]: true });
      await using _ = h;
      expect({ code: info.exit_code, made, lastMessage, steps: info.steps }).toEqual({
        code: 0,
        made: 2,
        lastMessage: "acted",
        steps: 2,
      });
    });
  }

  test("in another call: its model learns that its result is unknown, and it is not repeated", async () => {
    const { h, info, made, lastMessage } = await killedIn({});
    await using _ = h;
    expect({ code: info.exit_code, made, tokens: info.tokens_used }).toEqual({
      code: 0,
      made: 1,
      tokens: 30,
    });
    expect(lastMessage).toContain("may or may not have happened");
    const { records } = await h.runs.steps(info.uuid);
    expect(records.map(({ step }) => step)).toEqual([1, 2]);
    expect(records[0]?.tool_calls[0]).toMatchObject({ state: "unknown", input: { n: 1 } });
  });

  test("in its model call: its earlier usage counts, and no message is repeated", async () => {
    const look = toolDevice("Look", () => "seen", READ_ONLY);
    const paid = { ...usage, cache_write_tokens: 7, cost_usd: 0.5 };
    const answer = calls(["Look", {}]).map((event) =>
      event.type === "usage" ? { ...event, usage: paid } : event,
    );
    await using first = new KernelHarness({
      model: silentAt(2, script(answer)),
      devices: { "/dev/look": look },
    });
    await using second = new KernelHarness({ model: script(says("done")), devices: { "/dev/look": look } });
    const pid = await first.spawn("go", { input: "text" });
    await until(() => first.requests.length === 2);
    const uuid = await uuidOf(first, pid);
    crashInto(second, first);
    const { info } = await second.resumed(uuid);
    expect(info).toMatchObject({ exit_code: 0, steps: 2, tokens_used: 30, steps_used: 2, tool_calls: 1 });
    expect(info.usage).toMatchObject({ input_tokens: 20, cache_write_tokens: 7, cost_usd: 0.5 });
    expect(second.requests[0]?.messages).toEqual(first.requests[1]?.messages ?? []);
  });

  test("with its readable records, and a warning names the damaged lines", async () => {
    const look = toolDevice("Look", () => "seen", READ_ONLY);
    await using first = new KernelHarness({
      model: silentAt(2, script(calls(["Look", {}]))),
      devices: { "/dev/look": look },
    });
    await using second = new KernelHarness({ model: script(says("done")), devices: { "/dev/look": look } });
    const pid = await first.spawn("go");
    await until(() => first.requests.length === 2);
    const uuid = await uuidOf(first, pid);
    crashInto(second, first);
    const file = (name: string): string => join(second.runs.dir(uuid), name);
    appendFileSync(file("steps.jsonl"), '{"v":1,"step":2,"ts"');
    writeFileSync(file("step.journal"), "\0\0\n".repeat(2));
    writeFileSync(file("inbox.jsonl"), "[]");
    const { info, events } = await second.resumed(uuid);
    expect(info).toMatchObject({ exit_code: 0, result: "done", steps: 2 });
    expect(events.flatMap((event) => (event.event === "notice" ? event.text : []))).toEqual([
      "steps.jsonl of its record: line 2 is damaged and left out",
      "step.journal of its record: lines 1, 2 are damaged and left out",
      "inbox.jsonl of its record: line 1 is damaged and left out",
    ]);
  });

  test("without its trace when that can't be read, with one warning", async () => {
    await using first = new KernelHarness({ model: silentAt(1, script(says("done"))) });
    await using second = new KernelHarness({ model: silentAt(1, script(says("done"))) });
    const pid = await first.spawn("go");
    await until(() => first.requests.length === 1);
    const uuid = await uuidOf(first, pid);
    crashInto(second, first);
    const trace = join(second.runs.dir(uuid), "events.jsonl");
    rmSync(trace, { force: true });
    mkdirSync(trace);
    const suspended = await resume(second, uuid);
    await until(() => second.requests.length === 1);
    await second.kernel.lifecycle.suspend(suspended);
    await second.follow(suspended);
    const { info, events } = await second.resumed(uuid);
    expect(info).toMatchObject({ exit_code: 0, result: "done", steps: 1, error: null });
    expect(events.flatMap((event) => (event.event === "notice" ? event.text : []))).toEqual([
      expect.stringContaining("events.jsonl of its record: Cannot read"),
    ]);
    await until(() => second.kernel.processes.count === 0);
    expect(readdirSync(trace)).toEqual([]);
  });

  test("after its last answer: it ends with it, and its model is not called", async () => {
    await using first = new KernelHarness({ model: script(says("the answer")) });
    await using second = new KernelHarness({ model: script() });
    const pid = await first.spawn("go", { check: ["sleep 600"] });
    const uuid = await uuidOf(first, pid);
    await until(async () => (await first.runs.steps(uuid)).records.length === 1);
    crashInto(second, first);
    const again = await second.kernel.lifecycle.resume(
      uuid,
      null,
      second.opts({ limits: { ...second.opts().limits, check_timeout: 1 } }),
    );
    second.leases--;
    const { info } = await second.follow(again.pid);
    expect(info).toMatchObject({ result: "the answer", exit_reason: "check_failed", steps: 1 });
    expect(second.requests).toEqual([]);
  });

  const ends = [
    { reason: "max_tokens", word: "length", exit: "llm_error", says: "output limit" },
    { reason: "max_tokens", word: "model_length", exit: "llm_error", says: "context window" },
    { reason: "refusal", word: "content_filter", exit: "failed", says: '"content_filter"' },
    { reason: "other", word: "a_new_one", exit: "llm_error", says: '"a_new_one"' },
  ] as const;
  for (const { reason, word, exit, says: why } of ends)
    test(`after a last answer that ended with ${word}: the answer is still incomplete`, async () => {
      const answer = Promise.withResolvers<void>();
      await using first = new KernelHarness({
        model: async () => {
          await answer.promise;
          return [...says("half").slice(0, -1), { type: "stop", reason, word }];
        },
      });
      await using second = new KernelHarness({ model: script() });
      const pid = await first.spawn("go");
      const uuid = await uuidOf(first, pid);
      await until(() => first.requests.length === 1);
      crashInto(second, first);
      answer.resolve();
      await first.follow(pid);
      // Its record had the step, and not yet its end.
      cpSync(join(first.runs.dir(uuid), "steps.jsonl"), join(second.runs.dir(uuid), "steps.jsonl"));
      const { info } = await second.resumed(uuid);
      expect(info).toMatchObject({
        exit_code: 1,
        exit_reason: exit,
        result: "half",
        partial: true,
        steps: 1,
      });
      expect(info.error?.message).toContain(why);
      expect(second.requests).toEqual([]);
    });
});

describe("a run with children", () => {
  /** The parent spawns an agent, and says "done" when it hears anything of it; the child is silent at first. */
  function family(): Model {
    let asked = 0;
    return (request, signal) => {
      if (request.intent === "child") return ++asked === 1 ? silent(request, signal) : says("child's answer");
      return request.messages.length === 1 ? calls(["Agent", { intent: "child" }]) : says("done");
    };
  }

  test("that is suspended suspends them with it, and does not fail because of that when it resumes", async () => {
    await using h = new KernelHarness({ model: family() });
    const pid = await h.spawn("parent");
    await until(() => h.kernel.processes.count === 2 && h.requests.length === 2);
    const [parent, child] = h.kernel.processes.listProcs();
    if (!parent || !child) throw new Error("no child");
    await h.kernel.lifecycle.suspend(pid);
    await until(() => h.kernel.processes.count === 0);
    expect(await h.runs.info(child.uuid)).toMatchObject({
      state: "suspended",
      parent_uuid: parent.uuid,
      suspended: { reason: "PID 1, which spawned it, was suspended" },
    });
    expect((await h.resumed(parent.uuid)).info).toMatchObject({
      exit_code: 0,
      result: "done",
      children: [{ uuid: child.uuid, exit_code: 0 }],
    });
  });

  test("has a child that resumes as its own while it lives, and its result once", async () => {
    const model: Model = (request, signal) => {
      if (request.intent === "parent") return silent(request, signal);
      return request.messages.length === 1 ? silent(request, signal) : says("child's answer");
    };
    await using h = new KernelHarness({ model });
    const parent = await h.spawn("parent");
    const pid = await h.spawn("child", { parentPid: parent });
    const uuid = await uuidOf(h, pid);
    await until(() => h.requests.length === 2);
    await h.kernel.lifecycle.suspend(pid);
    expect(h.kernel.processes.info(parent).children).toMatchObject([{ uuid, exit_code: 75 }]);
    expect((await h.resumed(uuid, { input: "go on" })).info).toMatchObject({ exit_code: 0, ppid: parent });
    expect(h.kernel.processes.info(parent).children).toMatchObject([{ uuid, exit_code: 0 }]);
  });

  test("that was killed with its kernel knows how they ended", async () => {
    const model: Model = (request, signal) => {
      if (request.intent === "child") return says("child's answer");
      return request.messages.length === 1 ? calls(["Agent", { intent: "child" }]) : silent(request, signal);
    };
    await using first = new KernelHarness({ model });
    await using second = new KernelHarness({ model: script(says("done")) });
    const pid = await first.spawn("parent");
    const uuid = await uuidOf(first, pid);
    await until(() => first.requests.length === 3);
    crashInto(second, first);
    const { info } = await second.resumed(uuid);
    expect(info.children).toMatchObject([{ exit_code: 0, tokens_used: 15 }]);
    expect(info.tokens_used).toBe(45);
  });
});

describe("a run that has ended", () => {
  test("resumes with the message it is given, at the end of its conversation", async () => {
    await using h = new KernelHarness({ model: script(says("one"), says("two")) });
    const { info } = await h.run("go");
    expect((await h.resumed(info.uuid, { input: "and now?" })).info).toMatchObject({
      exit_code: 0,
      result: "two",
      steps: 2,
    });
    expect(h.requests[1]?.messages.slice(1)).toEqual([
      { role: "assistant", content: "one" },
      { role: "user", content: "and now?" },
    ]);
  });

  test("cannot resume without a message when it has completed: INVALID, and it is unchanged", async () => {
    await using h = new KernelHarness({ model: script(says("one")) });
    const { info } = await h.run("go");
    await until(() => h.kernel.processes.count === 0);
    const before = await h.runs.info(info.uuid);
    expect(await resume(h, info.uuid).catch((error: unknown) => error)).toMatchObject({
      code: "INVALID",
      syscall: "Resume",
      message: expect.stringContaining("has completed"),
    });
    expect(await h.runs.info(info.uuid)).toEqual(before);
  });

  test("by a failed check learns so", async () => {
    await using h = new KernelHarness({ model: script(says("one"), says("two")) });
    const { info } = await h.run("go", { check: ["false"] });
    await h.resumed(info.uuid);
    expect(h.requests[1]?.messages.at(-1)?.content).toContain("the check `false` ended with 1");
  });
});

describe("a claim of a run", () => {
  test("is one alone: of two at once, and of many, the others fail", async () => {
    await using h = new KernelHarness({ model: silent });
    const pid = await h.spawn("go");
    const uuid = await uuidOf(h, pid);
    await h.kernel.lifecycle.suspend(pid);
    const tries = await Promise.allSettled(Array.from({ length: 5 }, () => resume(h, uuid)));
    expect(tries.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    // Who comes late, where the disk is slow, finds it alive by then.
    for (const one of tries)
      if (one.status === "rejected")
        expect(one.reason).toMatchObject({
          code: "INVALID",
          message: expect.stringMatching(/being resumed|is alive as PID 2/),
        });
    expect(await resume(h, uuid).catch((error: unknown) => error)).toMatchObject({
      code: "INVALID",
      message: expect.stringContaining("is alive as PID 2"),
    });
  });

  test("is one alone across kernels, too", async () => {
    await using h = new KernelHarness({ model: silent, kernelAlive: (id) => id === "other" });
    const pid = await h.spawn("go");
    const uuid = await uuidOf(h, pid);
    await h.kernel.lifecycle.suspend(pid);
    const claim = h.runs.claim(uuid);
    expect(await resume(h, uuid).catch((error: unknown) => error)).toMatchObject({
      code: "INVALID",
      message: expect.stringContaining(`being resumed by another (rnix in process ${process.pid})`),
    });
    claim?.release({ remove: true });
    const info = await h.runs.info(uuid);
    if (!info) throw new Error("no record");
    (await h.runs.reopen(uuid)).info({ ...info, state: "running", ended_at_ms: null, kernel: "other" });
    expect(await resume(h, uuid).catch((error: unknown) => error)).toMatchObject({
      code: "INVALID",
      message: expect.stringContaining("of another rnix"),
    });
  });

  test("does not treat a run as crashed that its kernel ended just before its own end", async () => {
    let ends = (): void => undefined;
    const kernelAlive = (): boolean => {
      ends();
      return false;
    };
    await using h = new KernelHarness({ model: script(says("one")), kernelAlive });
    const { info } = await h.run("go");
    await until(() => h.kernel.processes.count === 0);
    const record = await h.runs.reopen(info.uuid);
    record.info({ ...info, state: "running", exit_reason: null, ended_at_ms: null, kernel: "other" });
    ends = () => record.info({ ...info, kernel: "other" });
    expect(await resume(h, info.uuid).catch((error: unknown) => error)).toMatchObject({
      code: "INVALID",
      message: expect.stringContaining("has completed"),
    });
    await record.close();
    expect(h.requests).toHaveLength(1);
  });

  test("fails for an unknown run, and leaves nothing", async () => {
    await using h = new KernelHarness({ model: silent });
    const none = Bun.randomUUIDv7();
    expect(await resume(h, none).catch((error: unknown) => error)).toMatchObject({ code: "NOT_FOUND" });
    expect(await h.runs.find("")).toEqual([]);
  });

  test("that fails leaves the run unchanged", async () => {
    await using h = new KernelHarness({ model: silentAt(1, script(says("done"))) });
    const pid = await h.spawn("go");
    await until(() => h.requests.length === 1);
    const uuid = await uuidOf(h, pid);
    await h.kernel.lifecycle.suspend(pid);
    await until(() => h.kernel.processes.count === 0);
    const before = await h.runs.info(uuid);
    const opts = h.opts();
    const broken = { ...opts, provider: { ...opts.provider, device: "/dev/llm/none" } };
    await expect(h.kernel.lifecycle.resume(uuid, null, broken)).rejects.toMatchObject({ code: "NOT_FOUND" });
    expect(await h.runs.info(uuid)).toEqual(before);
    expect(h.kernel.processes.count).toBe(0);
    expect((await h.resumed(uuid)).info).toMatchObject({ exit_code: 0 });
  });
});

describe("Checkpoint", () => {
  test("returns the step that a Resume would continue from, and is in the trace", async () => {
    const look = toolDevice("Look", () => "seen", READ_ONLY);
    await using h = new KernelHarness({
      model: silentAt(2, script(calls(["Look", {}]))),
      devices: { "/dev/look": look },
    });
    const pid = await h.spawn("go");
    const uuid = await uuidOf(h, pid);
    await until(() => h.requests.length === 2);
    expect(await h.kernel.lifecycle.checkpoint(pid)).toEqual({ uuid, step: 1 });
    await h.kernel.lifecycle.suspend(pid);
    const { records } = await h.runs.events(uuid);
    expect(records.filter(({ syscall }) => ["Checkpoint", "Suspend"].includes(syscall))).toMatchObject([
      { syscall: "Checkpoint", args: { pid, by: 0 }, result: 1 },
      { syscall: "Suspend", args: { pid, reason: "on request", wake: { on: "never" }, by: 0 } },
    ]);
    expect(await h.kernel.lifecycle.checkpoint(pid).catch((error: unknown) => error)).toMatchObject({
      code: "NOT_FOUND",
    });
  });
});
