import { describe, expect, test } from "bun:test";
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { SIGINT, SIGKILL, SIGPAUSE, SIGRESUME, SIGTERM } from "../../src/lib/signals.ts";
import { type LLMEvent, SyscallError } from "../../src/plugin/index.ts";
import { type FsPort, realFs } from "../../src/store/files/fs-port.ts";
import type { Action } from "../../src/store/runs/schema.ts";
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
import { openJournal } from "../support/open-journal.ts";
import { until } from "../support/until.ts";

describe("a run", () => {
  test("answers and completes", async () => {
    await using h = new KernelHarness({ model: script(says("42")) });
    const { info, events } = await h.run("what is the answer?");
    expect(info).toMatchObject({
      exit_code: 0,
      exit_reason: "completed",
      result: "42",
      steps: 1,
      tokens_used: 15,
      partial: false,
      state: "zombie",
    });
    expect(events.map((event) => (event.event === "activity" ? event.activity.text : event.event))).toEqual([
      "spawn",
      "starting",
      "step",
      "waiting for m",
      "writing",
      "text_delta",
      "usage",
      "log",
      "ending",
      "complete",
    ]);
    expect(h.requests[0]?.messages).toEqual([{ role: "user", content: "what is the answer?" }]);
  });

  test("calls tools as four syscalls and continues with their results", async () => {
    const seen: unknown[] = [];
    const echo = toolDevice("Echo", (input) => {
      seen.push(input);
      return `heard ${input.text}`;
    });
    await using h = new KernelHarness({
      model: script(calls(["Echo", { text: "hi" }]), says("done")),
      devices: { "/dev/echo": echo },
    });
    const { info } = await h.run("go");
    expect(info).toMatchObject({ exit_code: 0, steps: 2, tool_calls: 1, result: "done" });
    expect(seen).toEqual([{ op: "Echo", text: "hi" }]);
    const roles = h.requests[1]?.messages.map((message) => [message.role, message.content]);
    expect(roles).toEqual([
      ["user", "go"],
      ["assistant", ""],
      ["tool", "heard hi"],
    ]);
    const { records } = await h.runs.events(info.uuid);
    const trace = records.map((event) => event.syscall);
    expect(trace.slice(0, 4)).toEqual(["CtxAlloc", "CtxWrite", "Open", "Spawn"]);
    const onDevice = records.slice(records.findIndex((event) => event.args.tool === "Echo"));
    expect(onDevice.slice(0, 5).map((event) => event.syscall)).toEqual([
      "Open",
      "Write",
      "Read",
      "Read",
      "Close",
    ]);
  });

  test("runs read-only calls in parallel and others in order", async () => {
    const open = Promise.withResolvers<void>();
    let reading = 0;
    const order: string[] = [];
    const look = toolDevice(
      "Look",
      async (input) => {
        if (++reading === 2) open.resolve();
        await open.promise;
        return `saw ${input.n}`;
      },
      { annotations: { readOnlyHint: true } },
    );
    const act = toolDevice("Act", (input) => {
      order.push(String(input.n));
      return "ok";
    });
    await using h = new KernelHarness({
      model: script(
        calls(["Act", { n: 1 }], ["Look", { n: 2 }], ["Look", { n: 3 }], ["Act", { n: 4 }]),
        says("done"),
      ),
      devices: { "/dev/look": look, "/dev/act": act },
    });
    const { info } = await h.run("go");
    expect(info.exit_code).toBe(0);
    expect(order).toEqual(["1", "4"]);
    expect(h.requests[1]?.messages.slice(2).map((message) => message.content)).toEqual([
      "ok",
      "saw 2",
      "saw 3",
      "ok",
    ]);
  });

  test("distinguishes calls with the same id, or without an id", async () => {
    const twice: LLMEvent[] = [
      ...["same", "same", ""].map(
        (id): LLMEvent => ({ type: "tool_call", call: { id, name: "Plan", input: { steps: [id] } } }),
      ),
      { type: "stop", reason: "tool_calls" },
    ];
    await using h = new KernelHarness({ model: script(twice, says("done")) });
    const { info } = await h.run("go");
    expect(info.exit_code).toBe(0);
    const messages = h.requests[1]?.messages ?? [];
    const asked = messages.flatMap((message) => message.tool_calls?.map((call) => call.id) ?? []);
    const answered = messages.flatMap((message) => message.tool_call_id ?? []);
    expect(new Set(asked).size).toBe(3);
    expect(answered).toEqual(asked);
  });

  test("ends by the tool Complete with its result", async () => {
    await using h = new KernelHarness({ model: script(calls(["Complete", { result: "all done" }])) });
    const { info } = await h.run("go");
    expect(info).toMatchObject({ exit_code: 0, result: "all done", steps: 1 });
    const { records } = await h.runs.steps(info.uuid);
    expect(records.map((record) => record.action)).toEqual(["complete"]);
  });

  describe("records as text an answer that does not end it:", () => {
    const paused: LLMEvent[] = [...says("half").slice(0, -1), { type: "stop", reason: "paused" }];
    const output_schema = { type: "object", required: ["a"], properties: { a: { type: "number" } } };
    const complete = (result: string): LLMEvent[] => calls(["Complete", { result }]);
    test.each<[string, LLMEvent[][], object, Action[]]>([
      ["one that the model paused in", [paused, says("whole")], {}, ["text", "complete"]],
      [
        "one that does not fit the schema",
        [says("no"), says('{"a":1}')],
        { output_schema },
        ["text", "complete"],
      ],
      [
        "the same by Complete",
        [complete("no"), complete('{"a":1}')],
        { output_schema },
        ["tool_call", "complete"],
      ],
      [
        "but not the last that does not fit",
        [says("no"), says("no"), says("no")],
        { output_schema },
        ["text", "text", "complete"],
      ],
      [
        "nor one that was cut off",
        [[...says("half").slice(0, -1), { type: "stop", reason: "max_tokens" }]],
        {},
        ["complete"],
      ],
    ])("%s", async (_, answers, opts, actions) => {
      await using h = new KernelHarness({ model: script(...answers) });
      const { info } = await h.run("go", opts);
      const { records } = await h.runs.steps(info.uuid);
      expect(records.map(({ action }) => action)).toEqual(actions);
    });

    test("one that is followed by a message", async () => {
      const first = Promise.withResolvers<LLMEvent[]>();
      const answers = [first.promise, says("both")];
      await using h = new KernelHarness({ model: async () => (await answers.shift()) ?? [] });
      const run = h.run("go");
      await until(() => h.requests.length === 1, "the request");
      await h.kernel.ipc.send(0, 1, "and this");
      first.resolve(says("one"));
      const { info } = await run;
      const { records } = await h.runs.steps(info.uuid);
      expect(records.map(({ action }) => action)).toEqual(["text", "complete"]);
    });
  });

  test("records plan, replan and the calls", async () => {
    await using h = new KernelHarness({
      model: script(
        calls(["Plan", { steps: ["a", "b"] }]),
        calls(["Plan", { steps: ["c"] }]),
        calls(["Nope", {}]),
        says("x"),
      ),
    });
    const { info } = await h.run("go");
    const { records } = await h.runs.steps(info.uuid);
    expect(records.map((record) => record.action)).toEqual(["plan", "replan", "tool_call", "complete"]);
    expect(records[2]?.tool_calls[0]).toMatchObject({
      name: "Nope",
      state: "failed",
      error_code: "NOT_FOUND",
    });
  });
});

test("a step's record says where its answer is incomplete", async () => {
  await using h = new KernelHarness({
    model: script(calls(["Act", { n: 1 }]), [
      { type: "text_delta", text: "half" },
      { type: "usage", usage },
      { type: "stop", reason: "max_tokens" },
    ]),
    devices: { "/dev/act": toolDevice("Act", () => "acted") },
  });
  const { info } = await h.run("go");
  const { records } = await h.runs.steps(info.uuid);
  expect(records.map(({ stop_reason }) => stop_reason)).toEqual([undefined, "max_tokens"]);
});

describe("a call that goes wrong is reported to the model and does not end the run", () => {
  const strict = toolDevice("Strict", () => "ok", {
    input: {
      type: "object",
      properties: { n: { type: "integer" } },
      required: ["n"],
      additionalProperties: false,
    },
  });
  const broken = toolDevice("Broken", () => {
    throw new TypeError("oops");
  });
  const refusing = toolDevice("Refusing", () => {
    throw new SyscallError("UNAVAILABLE", "not now");
  });
  const invalid: LLMEvent[] = [
    {
      type: "tool_call",
      call: { id: "c", name: "Strict", input: {}, invalid: { text: "{n:", reason: "no JSON" } },
    },
    { type: "stop", reason: "tool_calls" },
  ];

  test.each<[string, LLMEvent[], string, RegExp]>([
    ["a tool that does not exist", calls(["Strikt", { n: 1 }]), "NOT_FOUND", /no tool "Strikt".*Strict/],
    ["input that does not fit the schema", calls(["Strict", { n: "x" }]), "INVALID", /n:/],
    ["input with a field too many", calls(["Strict", { n: 1, m: 2 }]), "INVALID", /m/],
    ["arguments that are no JSON", invalid, "INVALID", /\{n:/],
    ["a driver that throws something else", calls(["Broken", {}]), "DRIVER", /Plugin test.*oops/],
    ["a driver that refuses", calls(["Refusing", {}]), "UNAVAILABLE", /not now/],
  ])("%s", async (_what, answer, code, text) => {
    await using h = new KernelHarness({
      model: script(answer, says("done")),
      devices: { "/dev/strict": strict, "/dev/broken": broken, "/dev/refusing": refusing },
    });
    const { info } = await h.run("go");
    expect(info).toMatchObject({ exit_code: 0, exit_reason: "completed" });
    const { records } = await h.runs.steps(info.uuid);
    expect(records[0]?.tool_calls[0]).toMatchObject({ error_code: code, state: "failed" });
    expect(h.requests[1]?.messages.at(-1)?.content).toMatch(text);
  });

  test("a denied call", async () => {
    await using h = new KernelHarness({
      model: script(calls(["Strict", { n: 1 }]), says("done")),
      devices: { "/dev/strict": strict },
    });
    const { info } = await h.run("go", { deny: ["Strict"] });
    expect(info.exit_code).toBe(0);
    const { records } = await h.runs.steps(info.uuid);
    // The tool is not shown, so it does not exist for this model.
    expect(records[0]?.tool_calls[0]).toMatchObject({ error_code: "NOT_FOUND" });
  });

  test("a call that ignores its deadline is given up", async () => {
    const clock = new FakeClock();
    const started = Promise.withResolvers<void>();
    const deaf = toolDevice("Deaf", () => {
      started.resolve();
      return new Promise<string>(() => {});
    });
    await using h = new KernelHarness({
      model: script(calls(["Deaf", {}]), says("done")),
      devices: { "/dev/deaf": deaf },
      clock,
    });
    const run = h.run("go");
    await started.promise;
    await clock.advance(120_000);
    await clock.advance(3_000);
    const { info } = await run;
    expect(info.exit_code).toBe(0);
    const { records } = await h.runs.steps(info.uuid);
    expect(records[0]?.tool_calls[0]).toMatchObject({ error_code: "TIMEOUT", state: "failed" });
    expect(clock.pending).toBe(0);
  });

  test("a result of 100 MB is truncated, and stored beside the run", async () => {
    const huge = toolDevice("Huge", () => "x".repeat(100 * 1024 * 1024));
    await using h = new KernelHarness({
      model: script(calls(["Huge", {}]), says("done")),
      devices: { "/dev/huge": huge },
    });
    const { info } = await h.run("go");
    expect(info.exit_code).toBe(0);
    const shown = h.requests[1]?.messages.at(-1)?.content ?? "";
    expect(shown.length).toBeLessThan(101_000);
    const { records } = await h.runs.steps(info.uuid);
    const kept = records[0]?.tool_calls[0]?.kept;
    // Of one result so much is read.
    expect(kept?.bytes).toBeGreaterThan(16 * 1024 * 1024);
    expect(shown).toContain(`The whole result is in ${join(h.runs.dir(info.uuid), kept?.file ?? "")} …]`);
    expect((await stat(join(h.runs.dir(info.uuid), kept?.file ?? ""))).size).toBe(kept?.bytes ?? 0);
  });

  test("the same large result over and over is stored once, and every record names it", async () => {
    const same = toolDevice("Same", () => "y".repeat(2_000), { maxResult: 100 });
    await using h = new KernelHarness({
      model: script(...Array.from({ length: 5 }, () => calls(["Same", {}])), says("done")),
      devices: { "/dev/same": same },
    });
    const { info } = await h.run("go");
    const { records } = await h.runs.steps(info.uuid);
    const kept = records.flatMap(({ tool_calls }) => tool_calls.map((call) => call.kept?.file));
    expect(kept).toHaveLength(5);
    expect(new Set(kept).size).toBe(1);
    expect(await readdir(join(h.runs.dir(info.uuid), "results"))).toHaveLength(1);
  });
});

describe("a run ends", () => {
  test("max_steps", async () => {
    await using h = new KernelHarness({ model: () => calls(["Plan", { steps: ["again"] }]) });
    const { info } = await h.run("go", { max_steps: 3 });
    expect(info).toMatchObject({ exit_code: 1, exit_reason: "max_steps", steps: 3 });
  });

  test("budget_exceeded before the call that the budget does not cover, and nothing is spent on it", async () => {
    await using h = new KernelHarness({ model: script(says("never")) });
    const { info } = await h.run("go", { context_budget: 5 });
    expect(info).toMatchObject({ exit_code: 2, exit_reason: "budget_exceeded", tokens_used: 0 });
    expect(h.requests).toHaveLength(0);
  });

  test("an answer that uses the budget up completes; the next call is refused", async () => {
    const costly: LLMEvent[] = [
      { type: "text_delta", text: "done" },
      { type: "usage", usage: { ...usage, output_tokens: 100_000 } },
      { type: "stop", reason: "end_turn" },
    ];
    await using h = new KernelHarness({ model: script(costly) });
    const { info } = await h.run("go", { context_budget: 50_000 });
    expect(info).toMatchObject({ exit_code: 0, exit_reason: "completed" });
    expect(h.requests[0]?.max_output).toBeLessThan(50_000);
  });

  test("llm_error with the model's reason", async () => {
    const model: Model = () => {
      throw new SyscallError("PERMISSION", "Wrong key. Check OPENAI_API_KEY.");
    };
    await using h = new KernelHarness({ model });
    const { info } = await h.run("go");
    expect(info).toMatchObject({ exit_code: 1, exit_reason: "llm_error", error: { code: "PERMISSION" } });
    expect(info.error?.message).toContain("OPENAI_API_KEY");
  });

  test("the usage of a failing call is counted", async () => {
    const cut: LLMEvent[] = [
      { type: "text_delta", text: "half an ans" },
      { type: "usage", usage },
    ];
    const clock = new FakeClock();
    await using h = new KernelHarness({ model: () => cut, limits: { model_retries: 1 }, clock });
    const run = h.run("go");
    await until(() => h.requests.length === 1);
    await clock.advance(10_000);
    const { info } = await run;
    expect(info).toMatchObject({ exit_code: 1, exit_reason: "llm_error", tokens_used: 30, partial: true });
    expect(h.requests).toHaveLength(2);
  });

  test("loop_detected", async () => {
    await using h = new KernelHarness({ model: () => calls(["Plan", { steps: ["same"] }]) });
    const { info } = await h.run("go", { limits: { ...h.opts().limits, loop_threshold: 4 } });
    h.leases--;
    expect(info).toMatchObject({ exit_code: 1, exit_reason: "loop_detected", steps: 4 });
  });

  test("circuit_breaker", async () => {
    await using h = new KernelHarness({ model: () => calls(["Nope", { n: Math.floor(h.requests.length) }]) });
    const { info } = await h.run("go");
    expect(info).toMatchObject({ exit_code: 1, exit_reason: "circuit_breaker", steps: 8 });
  });

  test("timeout, with the text so far", async () => {
    const clock = new FakeClock();
    let turn = 0;
    const model: Model = (request, signal) =>
      turn++ === 0
        ? [{ type: "text_delta", text: "so far" }, ...calls(["Plan", { steps: ["x"] }])]
        : silent(request, signal);
    await using h = new KernelHarness({ model, clock });
    const pid = await h.spawn("go", { timeout_ms: 5_000 });
    await until(() => h.requests.length === 2);
    await clock.advance(5_000);
    const { info } = await h.follow(pid);
    expect(info).toMatchObject({ exit_code: 1, exit_reason: "timeout", partial: true, result: "so far" });
    expect(clock.pending).toBe(0);
  });

  test.each([
    [SIGTERM, 143, "terminated"],
    [SIGKILL, 137, "killed"],
    [SIGINT, 130, "interrupted"],
  ] as const)("signal %i during a model call: %i %s", async (signal, code, reason) => {
    await using h = new KernelHarness({ model: silent });
    const pid = await h.spawn("go");
    await until(() => h.requests.length === 1);
    h.kernel.processes.kill(pid, signal);
    expect((await h.follow(pid)).info).toMatchObject({ exit_code: code, exit_reason: reason });
  });

  test("suspended: 75, also on disk", async () => {
    await using h = new KernelHarness({ model: silent });
    const pid = await h.spawn("go");
    await until(() => h.requests.length === 1);
    await h.kernel.lifecycle.suspend(pid);
    const { info } = await h.follow(pid);
    expect(info).toMatchObject({ exit_code: 75, exit_reason: "suspended", state: "suspended" });
    expect((await h.runs.info(info.uuid))?.state).toBe("suspended");
  });

  test("a kill during a suspension wins", async () => {
    const stubborn = Promise.withResolvers<string>();
    const slow = toolDevice("Slow", () => stubborn.promise);
    await using h = new KernelHarness({ model: script(calls(["Slow", {}])), devices: { "/dev/slow": slow } });
    const pid = await h.spawn("go");
    await until(() => h.kernel.processes.info(pid).tool_calls === 1);
    const suspended = h.kernel.lifecycle.suspend(pid);
    h.kernel.processes.kill(pid, SIGINT);
    stubborn.resolve("late");
    expect(await suspended).toMatchObject({ code: 130 });
    expect((await h.follow(pid)).info).toMatchObject({ exit_code: 130, exit_reason: "interrupted" });
  });

  test.each([
    ["passing", "true", 0, "completed"],
    ["failing", "echo broken; exit 3", 1, "check_failed"],
  ])("a %s check decides", async (_what, command, code, reason) => {
    await using h = new KernelHarness({ model: script(says("done")) });
    const { info } = await h.run("go", { check: [command] });
    expect(info).toMatchObject({ exit_code: code, exit_reason: reason });
    expect(info.checks[0]?.command).toBe(command);
    if (code !== 0) expect(info.checks[0]).toMatchObject({ exit_code: 3, output: "broken\n" });
  });
});

describe("pausing", () => {
  test("stops the run at its next step, freezes its clock, and lets it resume in the same process", async () => {
    const clock = new FakeClock();
    const held = Promise.withResolvers<void>();
    const wait = toolDevice("Wait", async () => {
      await held.promise;
      return "waited";
    });
    await using h = new KernelHarness({
      model: script(calls(["Wait", {}]), says("done")),
      devices: { "/dev/wait": wait },
      clock,
    });
    const pid = await h.spawn("go", { timeout_ms: 10_000 });
    await until(() => h.kernel.processes.info(pid).tool_calls === 1);
    h.kernel.processes.kill(pid, SIGPAUSE);
    expect(h.kernel.processes.info(pid)).toMatchObject({ is_paused: true, state: "running" });
    held.resolve();
    await clock.advance(60_000);
    expect(h.kernel.processes.info(pid)).toMatchObject({ steps: 1, elapsed_ms: 0 });
    h.kernel.processes.kill(pid, SIGRESUME);
    const { info } = await h.follow(pid);
    expect(info).toMatchObject({ exit_code: 0, steps: 2, is_paused: false, paused_at_ms: 0, elapsed_ms: 0 });
  });

  test("a kill while paused has the signal's code and its own reason", async () => {
    await using h = new KernelHarness({ model: silent });
    const pid = await h.spawn("go");
    h.kernel.processes.kill(pid, SIGPAUSE);
    h.kernel.processes.kill(pid, SIGKILL);
    expect((await h.follow(pid)).info).toMatchObject({ exit_code: 137, exit_reason: "killed_while_paused" });
  });
});

describe("children", () => {
  test("end before their parent, and their failure is in its verdict", async () => {
    let parentTurn = Promise.withResolvers<void>();
    const model: Model = async (request, signal) => {
      if (request.intent === "child") return await silent(request, signal);
      await parentTurn.promise;
      return says("parent done");
    };
    await using h = new KernelHarness({ model });
    const parent = await h.spawn("parent");
    const child = await h.spawn("child", { parentPid: parent });
    const runs = Promise.all([h.follow(parent), h.follow(child)]);
    parentTurn.resolve();
    parentTurn = Promise.withResolvers();
    const [{ info: parentInfo }, { info: childInfo }] = await runs;
    expect(childInfo).toMatchObject({ exit_code: 143, parent_uuid: parentInfo.uuid });
    expect(parentInfo).toMatchObject({ exit_code: 1, exit_reason: "failed" });
    expect(parentInfo.children).toMatchObject([{ uuid: childInfo.uuid, exit_code: 143 }]);
  });

  test("never have more rights than their parent", async () => {
    await using h = new KernelHarness({
      model: silent,
      devices: { "/dev/echo": toolDevice("Echo", () => "x") },
    });
    const parent = await h.spawn("parent", { deny: ["Echo"], max_steps: 5, context_budget: 1_000 });
    const child = await h.spawn("child", {
      parentPid: parent,
      allow: ["Echo"],
      max_steps: 50,
      context_budget: null,
    });
    expect(h.kernel.processes.info(child)).toMatchObject({
      max_steps: 5,
      context_budget: 1_000,
      ppid: parent,
    });
    expect(h.kernel.processes.info(child).allowed_tools).not.toContain("Echo");
  });

  test("are limited in depth and number", async () => {
    await using h = new KernelHarness({ model: silent, limits: { spawn_depth: 2, live_children: 3 } });
    const one = await h.spawn("1");
    const two = await h.spawn("2", { parentPid: one });
    const three = await h.spawn("3", { parentPid: two });
    await expect(h.spawn("4", { parentPid: three })).rejects.toMatchObject({
      code: "EXHAUSTED",
      syscall: "Spawn",
    });
    await h.spawn("second", { parentPid: one });
    await expect(h.spawn("third", { parentPid: one })).rejects.toMatchObject({ code: "EXHAUSTED" });
  });

  test("require a live parent, or fail with NOT_FOUND", async () => {
    await using h = new KernelHarness({ model: silent });
    await expect(h.spawn("x", { parentPid: 99 })).rejects.toMatchObject({ code: "NOT_FOUND" });
  });
});

describe("records", () => {
  test("are on disk before their effects: the answer before a call runs, its start too", async () => {
    const seen: unknown[] = [];
    const look = toolDevice("Look", async () => {
      const [uuid] = await h.runs.find("");
      seen.push((await openJournal(h.runs, uuid ?? "")).entries.map((entry) => entry.t));
      return "ok";
    });
    await using h = new KernelHarness({
      model: script(calls(["Look", {}]), says("done")),
      devices: { "/dev/look": look },
    });
    const { info } = await h.run("go");
    expect(seen).toEqual([["answer", "call_start"]]);
    const { records } = await h.runs.steps(info.uuid);
    expect(records.map((record) => record.step)).toEqual([1, 2]);
    expect(records[0]?.messages.map((message) => message.role)).toEqual(["user", "assistant"]);
    expect((await openJournal(h.runs, info.uuid)).entries).toEqual([]);
    expect(await h.runs.info(info.uuid)).toMatchObject({ exit_code: 0, result: "done" });
    expect((await h.runs.meta(info.uuid))?.tools.map((tool) => tool.name)).toContain("Look");
  });

  test.each([0, 1])(
    "that can't be written after %i lines of the journal end the run before the call's effect",
    async (lines) => {
      let effects = 0;
      const act = toolDevice("Act", () => {
        effects++;
        return "done";
      });
      await using h = new KernelHarness({
        model: script(calls(["Act", {}]), says("never")),
        devices: { "/dev/act": act },
        fs: fullJournal(lines),
      });
      const { info } = await h.run("go");
      expect(info).toMatchObject({ exit_code: 1, exit_reason: "record_error", error: { code: "EXHAUSTED" } });
      expect(effects).toBe(0);
    },
  );

  test.each(["another run ends", "the kernel shuts down"])(
    "of the end that the disk refused are written when it takes them again and %s",
    async (when) => {
      const disk = { full: false };
      const model = script(() => {
        disk.full = true;
        return says("done");
      }, says("second"));
      await using h = new KernelHarness({ model, fs: fullForInfo(disk) });
      const { info } = await h.run("go");
      const failed = { exit_code: 1, exit_reason: "record_error", result: "done" };
      expect(info).toMatchObject(failed);
      expect(h.warnings.join()).toContain("the end could not be recorded");
      expect((await h.runs.info(info.uuid))?.state).toBe("running");
      disk.full = false;
      if (when === "another run ends") await h.run("again");
      else await h.kernel.shutdown();
      expect(await h.runs.info(info.uuid)).toMatchObject({ ...failed, state: "dead" });
    },
  );

  test("of a failed spawn are removed", async () => {
    await using h = new KernelHarness({ model: silent });
    const opts = h.opts();
    opts.provider = { ...opts.provider, device: "/dev/llm/none" };
    await expect(h.kernel.processes.spawn("go", null, opts)).rejects.toMatchObject({
      code: "NOT_FOUND",
      syscall: "Open",
    });
    expect(h.kernel.processes.count).toBe(0);
    expect(await h.runs.find("")).toEqual([]);
  });
});

test("callbacks come at the specified moments", async () => {
  const calledBack: string[] = [];
  await using h = new KernelHarness({
    model: script(calls(["Plan", { steps: ["x"] }]), says("done")),
    callbacks: {
      onSpawn: (pid, intent, provider, model) =>
        calledBack.push(`spawn ${pid} ${intent} ${provider}/${model}`),
      onStep: (pid, step, total) => calledBack.push(`step ${pid} ${step}/${total}`),
      onComplete: (pid, result, exit) => calledBack.push(`complete ${pid} ${result} ${exit.code}`),
      onError: (pid, error) => calledBack.push(`error ${pid} ${error.code}`),
    },
  });
  await h.run("go");
  await h.run("again", { context_budget: 1 });
  expect(calledBack).toEqual([
    "spawn 1 go scripted/m",
    "step 1 1/100",
    "step 1 2/100",
    "complete 1 done 0",
    "spawn 2 again scripted/m",
    "error 2 EXHAUSTED",
    "complete 2  2",
  ]);
});

test("the prompt's head and the tools are the same bytes in every request", async () => {
  await using h = new KernelHarness({
    model: script(calls(["Plan", { steps: ["a"] }]), calls(["Plan", { steps: ["b"] }]), says("done")),
  });
  await h.run("go", { system_prompt: "Be brief." });
  const heads = h.requests.map((request) => JSON.stringify([request.system_prompt, request.tools]));
  expect(new Set(heads).size).toBe(1);
  const [first, second] = h.requests;
  expect(second?.messages.slice(0, first?.messages.length)).toEqual(first?.messages ?? []);
});

/** A disk on which the journal takes this number of writes and no more. */
function fullJournal(writes: number): FsPort {
  const journals = new Set<number>();
  let left = writes;
  return {
    ...realFs,
    open(path, mode) {
      const fd = realFs.open(path, mode);
      if (path.endsWith("step.journal")) journals.add(fd);
      else journals.delete(fd);
      return fd;
    },
    write(fd, data) {
      if (journals.has(fd) && left-- <= 0)
        throw Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
      return realFs.write(fd, data);
    },
  };
}

/** A disk that takes no process record as long as it is full. */
function fullForInfo(disk: { full: boolean }): FsPort {
  return {
    ...realFs,
    rename(from, to) {
      if (disk.full && to.endsWith("proc-info.json")) {
        throw Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
      }
      realFs.rename(from, to);
    },
  };
}
