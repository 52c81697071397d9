import { describe, expect, test } from "bun:test";
import type { ProviderChoice } from "../../../src/kernel/types.ts";
import { SyscallError } from "../../../src/plugin/index.ts";
import { codeOf } from "../../support/failure.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { calls, KernelHarness, type Model, says, script, toolDevice } from "../../support/kernel.ts";
import { Mountable } from "../../support/mountable.ts";
import { crashInto } from "../../support/sealed-record.ts";
import { until } from "../../support/until.ts";
import { end, parrot, said, send, waits } from "./support.ts";

/** A tool that lasts until the test lets it end. */
function slowTool() {
  const begun = Promise.withResolvers<void>();
  const end = Promise.withResolvers<void>();
  const device = toolDevice("Slow", async () => {
    begun.resolve();
    await end.promise;
    return "done";
  });
  return { begun: begun.promise, end: end.resolve, devices: { "/dev/slow": device } };
}

describe("a chat", () => {
  test("waits for a message after each answer, and continues with the next message as a new turn", async () => {
    await using h = new KernelHarness({ model: script(says("hello"), says("a joke")) });
    const pid = await h.spawn("hi", { chat: true });
    await waits(h, pid);
    expect(h.kernel.processes.info(pid)).toMatchObject({ state: "running", result: "hello", steps: 1 });
    expect(h.kernel.doing(h.kernel.processes.info(pid))).toMatchObject({
      kind: "input",
      text: "waiting for your message",
    });
    expect(await send(h, pid, "tell a joke")).toBe(2);
    await until(() => h.requests.length === 2);
    expect(said(h.requests[1])).toEqual(["user: hi", "assistant: hello", "user: tell a joke"]);
    const info = await end(h, pid);
    expect(info).toMatchObject({
      exit_code: 0,
      exit_reason: "completed",
      result: "a joke",
      steps: 2,
      chat: true,
    });
    const { events } = await h.follow(pid);
    const messages = events.filter((event) => event.event === "message");
    expect(messages.map(({ seq, state }) => `${seq} ${state}`)).toEqual([
      "1 queued",
      "1 read",
      "2 queued",
      "2 read",
    ]);
  });

  test("may begin without a message: the first one is its intent", async () => {
    await using h = new KernelHarness({ model: parrot });
    const pid = await h.spawn("", { chat: true });
    await waits(h, pid);
    expect(h.requests).toEqual([]);
    await send(h, pid, "hi");
    await until(() => h.requests.length === 1);
    expect(await end(h, pid)).toMatchObject({ intent: "hi", result: "re: hi" });
  });

  test("does not end by the tool Complete or by an answer that was cut off", async () => {
    await using h = new KernelHarness({
      model: script(
        calls(["Complete", { result: "the result" }]),
        [
          { type: "text_delta", text: "cut" },
          { type: "stop", reason: "max_tokens" },
        ],
        says("bye"),
      ),
    });
    const pid = await h.spawn("hi", { chat: true });
    await waits(h, pid);
    expect(h.kernel.processes.info(pid).result).toBe("the result");
    await send(h, pid, "more");
    await until(() => h.requests.length === 2);
    await waits(h, pid);
    expect(h.kernel.processes.info(pid).result).toBe("cut");
    await send(h, pid, "more");
    await until(() => h.requests.length === 3);
    expect(await end(h, pid)).toMatchObject({ exit_code: 0, result: "bye" });
  });

  test("does not end when its model can't answer or turns in a circle: the user decides what follows", async () => {
    let down = true;
    const model: Model = (request, signal) => {
      if (down) throw new SyscallError("PERMISSION", "the key is refused");
      const isNew = request.messages.at(-1)?.role === "user";
      if (request.messages.length > 1 && isNew) return parrot(request, signal);
      return calls(["Loop", {}]);
    };
    const loop = { "/dev/loop": toolDevice("Loop", () => "again") };
    await using h = new KernelHarness({ model, devices: loop, limits: { loop_threshold: 3 } });
    const pid = await h.spawn("go", { chat: true });
    await waits(h, pid);
    expect(h.kernel.processes.info(pid)).toMatchObject({ state: "running", steps: 0 });
    expect((await h.kernel.chats.takeBack(pid, 1)).text).toBe("go");
    down = false;
    await send(h, pid, "go now");
    await until(() => h.kernel.processes.info(pid).steps === 3);
    await waits(h, pid);
    await send(h, pid, "stop that");
    await until(() => h.kernel.processes.info(pid).steps === 4);
    const info = await end(h, pid);
    expect(info).toMatchObject({ exit_code: 0, result: "re: stop that" });
    expect(info.notices.join()).toMatch(/the key is refused.*3 times in a row/s);
  });

  test("stops its clock while it waits, and costs nothing", async () => {
    const clock = new FakeClock();
    await using h = new KernelHarness({ clock, model: parrot, limits: { timeout: 60_000 } });
    const pid = await h.spawn("hi", { chat: true });
    await waits(h, pid);
    // The test follows it: it is not suspended.
    expect(clock.waits).toEqual([]);
    await clock.advance(3_600_000);
    expect(h.kernel.processes.info(pid)).toMatchObject({ state: "running", elapsed_ms: 0 });
    expect(await end(h, pid)).toMatchObject({ exit_code: 0, elapsed_ms: 0 });
  });

  test("has the limits of steps and time of chats, unless it was given others", async () => {
    const limits = { max_steps: 2, timeout: 1000, chat_max_steps: 5, chat_timeout: 9000 };
    await using h = new KernelHarness({ model: parrot, limits });
    const chat = await h.spawn("hello", { chat: true });
    const given = await h.spawn("hello", { chat: true, max_steps: 3 });
    const run = await h.spawn("hello", {});
    const limitsOf = (pid: number) => {
      const { max_steps, timeout_ms } = h.kernel.processes.info(pid);
      return { max_steps, timeout_ms };
    };
    expect(limitsOf(chat)).toEqual({ max_steps: 5, timeout_ms: 9000 });
    expect(limitsOf(given)).toEqual({ max_steps: 3, timeout_ms: 9000 });
    expect(limitsOf(run)).toEqual({ max_steps: 2, timeout_ms: 1000 });
  });

  test("is suspended when no client has followed it for a while; its next message resumes it", async () => {
    const clock = new FakeClock();
    await using h = new KernelHarness({ clock, model: parrot, limits: { chat_idle: 60_000 } });
    const pid = await h.kernel.processes.spawn("hi", null, h.opts({ chat: true }));
    const { uuid } = h.kernel.processes.info(pid);
    await waits(h, pid);
    const client = h.kernel.attach(pid);
    await clock.advance(120_000);
    expect(h.kernel.processes.info(pid).state).toBe("running");
    client.end();
    // A client that only waits for its end, or reads its log, does not keep it.
    h.kernel.attach(pid, { watched: "log" });
    await clock.advance(59_999);
    expect(h.kernel.processes.info(pid).state).toBe("running");
    await clock.advance(1);
    await until(() => h.kernel.processes.count === 0);
    expect(await h.runs.info(uuid)).toMatchObject({
      state: "suspended",
      suspended: { wake: { on: "message" }, reason: "no message came for 1m" },
    });
    const again = await h.kernel.lifecycle.resume(uuid, null, h.opts(), { input: "still there?" });
    expect(again.seq).toBe(2);
    await until(() => h.requests.length === 2);
    expect(said(h.requests[1])).toEqual(["user: hi", "assistant: re: hi", "user: still there?"]);
    expect(await end(h, again.pid)).toMatchObject({ uuid, result: "re: still there?", elapsed_ms: 0 });
  });

  test("waits again when it is resumed without a message", async () => {
    await using h = new KernelHarness({ model: parrot });
    const pid = await h.spawn("hi", { chat: true });
    await waits(h, pid);
    const { suspended } = await h.kernel.lifecycle.suspend(pid);
    expect(suspended?.wake).toEqual({ on: "message" });
    const { uuid } = (await h.follow(pid)).info;
    const again = await h.kernel.lifecycle.resume(uuid, null, h.opts());
    await waits(h, again.pid);
    expect(h.requests).toHaveLength(1);
    expect(await end(h, again.pid)).toMatchObject({ exit_code: 0, result: "re: hi" });
  });

  test("ends with its checks, and a failed child does not decide", async () => {
    await using h = new KernelHarness({ model: parrot });
    const good = await h.spawn("hi", { chat: true, check: ["true"] });
    expect(await end(h, good)).toMatchObject({ exit_code: 0, checks: [{ command: "true", exit_code: 0 }] });
    const bad = await h.spawn("hi", { chat: true, check: ["false"], check_attempts: 3 });
    expect(await end(h, bad)).toMatchObject({ exit_code: 1, exit_reason: "check_failed", steps: 1 });
  });

  test("that is asked to end while it works ends after its answer and the messages that wait", async () => {
    const slow = slowTool();
    await using h = new KernelHarness({
      devices: slow.devices,
      model: script(calls(["Slow", {}]), says("first"), says("second")),
    });
    const pid = await h.spawn("hi", { chat: true });
    await slow.begun;
    await send(h, pid, "and then", "after_answer");
    expect(await h.kernel.chats.end(pid)).toEqual({ ended: false });
    slow.end();
    expect((await h.follow(pid)).info).toMatchObject({ exit_code: 0, result: "second", steps: 3 });
  });

  test("ends truthfully when its steps are used up, and is resumed with more", async () => {
    await using h = new KernelHarness({ model: parrot });
    const pid = await h.spawn("one", { chat: true, max_steps: 1 });
    await waits(h, pid);
    await send(h, pid, "two");
    const { info } = await h.follow(pid);
    expect(info).toMatchObject({ exit_code: 1, exit_reason: "max_steps", steps: 1 });
    const again = await h.kernel.lifecycle.resume(info.uuid, null, h.opts({ max_steps: 9 }));
    await until(() => h.requests.length === 2);
    expect(said(h.requests[1])).toEqual(["user: one", "assistant: re: one", expect.stringContaining("two")]);
    expect(await end(h, again.pid)).toMatchObject({ exit_code: 0, steps: 2 });
  });

  test("keeps its mounts and its process between turns", async () => {
    const table = new Mountable();
    await using h = new KernelHarness({ model: parrot, mounts: [table.type] });
    const mounts = [{ type: "table", name: "far", config: {}, shared: false }];
    const pid = await h.spawn("one", { chat: true, mounts });
    await waits(h, pid);
    await send(h, pid, "two");
    await until(() => h.requests.length === 2);
    expect(await end(h, pid)).toMatchObject({ pid, steps: 2 });
    expect(table.attempts).toBe(1);
  });

  test("is compacted on request while it waits", async () => {
    await using h = new KernelHarness({ model: parrot });
    const pid = await h.spawn("x".repeat(40_000), { chat: true });
    await waits(h, pid);
    const { tokensBefore, tokensAfter } = await h.kernel.chats.compact(pid);
    expect(tokensAfter).toBeLessThanOrEqual(tokensBefore);
    await end(h, pid);
  });
});

describe("another model", () => {
  /** Another model of the same device. */
  function otherModel(h: KernelHarness, pid: number): ProviderChoice {
    const { provider } = h.kernel.processes.inherited(pid);
    if (!provider) throw new Error("the run has no model");
    return { ...provider, name: "other", model: "m2", gateKey: "other" };
  }

  test("is taken at once while a chat waits, and stays after a resume", async () => {
    await using h = new KernelHarness({ model: parrot, can: { effort: true } });
    const pid = await h.spawn("hi", { chat: true });
    await waits(h, pid);
    const provider = otherModel(h, pid);
    const choice = { provider, effort: "high" } as const;
    expect(await h.kernel.chats.setModel(pid, choice)).toEqual({ applied: true });
    expect(h.kernel.processes.info(pid)).toMatchObject({ provider: "other", model: "m2", effort: "high" });
    await send(h, pid, "again");
    await until(() => h.requests.length === 2);
    expect(h.requests.map(({ model, effort }) => [model, effort])).toEqual([
      ["m", undefined],
      ["m2", "high"],
    ]);
    const info = await end(h, pid);
    expect(info.switches).toMatchObject([
      { step: 2, from: { model: "m" }, to: { model: "m2" }, error: null },
    ]);
    const { records } = await h.runs.steps(info.uuid);
    expect(records.map(({ switches = [] }) => switches.length)).toEqual([0, 1]);
  });

  test("is taken before the next model call of a run that works; one that can't be used changes nothing", async () => {
    const slow = slowTool();
    await using h = new KernelHarness({
      devices: slow.devices,
      model: (request, signal) =>
        request.messages.length === 1 ? calls(["Slow", {}]) : parrot(request, signal),
    });
    const pid = await h.spawn("go", { chat: true });
    await slow.begun;
    const provider = otherModel(h, pid);
    const choice = { provider };
    expect(await h.kernel.chats.setModel(pid, choice)).toEqual({ applied: false });
    slow.end();
    await waits(h, pid);
    expect(h.requests.map(({ model }) => model)).toEqual(["m", "m2"]);
    const missing = { provider: { ...choice.provider, name: "x", device: "/dev/llm/missing" } };
    expect(await codeOf(h.kernel.chats.setModel(pid, missing))).toBe("NOT_FOUND");
    expect(h.kernel.processes.info(pid)).toMatchObject({ provider: "other", model: "m2" });
    await send(h, pid, "still here?");
    await until(() => h.requests.length === 3);
    expect(await end(h, pid)).toMatchObject({ exit_code: 0, result: "re: still here?" });
  });

  test("needs a known price where the run has a cost limit", async () => {
    await using h = new KernelHarness({ model: parrot });
    const price = { input: 1, output: 1, cached: 1 };
    const provider = { ...h.opts().provider, price };
    h.leases--;
    const pid = await h.spawn("hi", { chat: true, max_cost: 1, provider });
    await waits(h, pid);
    const { price: _, ...unpriced } = provider;
    expect(await codeOf(h.kernel.chats.setModel(pid, { provider: { ...unpriced, model: "m2" } }))).toBe(
      "INVALID",
    );
    expect(await h.kernel.chats.setModel(pid, { provider: { ...provider, model: "m2" } })).toEqual({
      applied: true,
    });
    await end(h, pid);
  });

  test("is given to a suspended run: its next message is answered by it", async () => {
    await using h = new KernelHarness({ model: parrot });
    const pid = await h.spawn("hi", { chat: true });
    await waits(h, pid);
    const provider = otherModel(h, pid);
    await h.kernel.lifecycle.suspend(pid);
    const { uuid } = (await h.follow(pid)).info;
    const choice = { provider, effort: "low" } as const;
    const changed = await h.kernel.lifecycle.setModel(uuid, h.dataDir, choice);
    expect(changed).toMatchObject({ provider: "other", model: "m2", effort: "low", state: "suspended" });
    expect(await h.runs.info(uuid)).toMatchObject({ model: "m2", switches: [{ step: 2, error: null }] });
  });
});

describe("a message of the user", () => {
  test("steers any run: its model gets it with its next step, as the user's words", async () => {
    const slow = slowTool();
    await using h = new KernelHarness({
      devices: slow.devices,
      model: script(calls(["Slow", {}]), says("as you say")),
    });
    const pid = await h.spawn("go");
    await slow.begun;
    await send(h, pid, "use tabs");
    await send(h, pid, "and no semicolons");
    slow.end();
    const { info } = await h.follow(pid);
    expect(info).toMatchObject({ exit_code: 0, result: "as you say", steps: 2 });
    expect(said(h.requests[1]).at(-1)).toBe("user: use tabs\n\nand no semicolons");
  });

  test("reaches a run that says it is done: by an answer, and by the tool Complete", async () => {
    for (const last of [says("done"), calls(["Complete", { result: "done" }])]) {
      const asked = Promise.withResolvers<void>();
      const go = Promise.withResolvers<void>();
      const model: Model = async ({ messages }) => {
        if (messages.length > 1) return says("done again");
        asked.resolve();
        await go.promise;
        return [...last];
      };
      await using h = new KernelHarness({ model });
      const pid = await h.spawn("go");
      await asked.promise;
      await send(h, pid, "one more thing", "after_answer");
      go.resolve();
      expect((await h.follow(pid)).info).toMatchObject({ exit_code: 0, result: "done again", steps: 2 });
      expect(said(h.requests[1]).at(-1)).toBe("user: one more thing");
    }
  });

  test("for after the answer waits for it, one for each turn, while others go first", async () => {
    const slow = slowTool();
    await using h = new KernelHarness({
      devices: slow.devices,
      model: (request, signal) =>
        request.messages.length === 1 ? calls(["Slow", {}]) : parrot(request, signal),
    });
    const pid = await h.spawn("go", { chat: true });
    await slow.begun;
    await send(h, pid, "A", "after_answer");
    await send(h, pid, "B");
    await send(h, pid, "C", "after_answer");
    slow.end();
    await until(() => h.requests.length === 4);
    const last = h.requests.map((request) => said(request).at(-1));
    expect(last.slice(1)).toEqual(["user: B", "user: A", "user: C"]);
    expect(await end(h, pid)).toMatchObject({ result: "re: C" });
  });

  test("can be taken back until the model has read it; then never", async () => {
    const slow = slowTool();
    await using h = new KernelHarness({
      devices: slow.devices,
      model: script(calls(["Slow", {}]), says("ok"), says("bye")),
    });
    const pid = await h.spawn("go", { chat: true });
    const { uuid } = h.kernel.processes.info(pid);
    await slow.begun;
    const seq = await send(h, pid, "wrong");
    expect(await h.kernel.chats.takeBack(pid, seq)).toEqual({ seq, text: "wrong", when: "next_step" });
    expect((await h.runs.inbox(uuid)).unread.map((entry) => entry.seq)).toEqual([1]);
    expect(await codeOf(h.kernel.chats.takeBack(pid, seq))).toBe("NOT_FOUND");
    expect(await codeOf(h.kernel.chats.takeBack(pid, 1))).toBe("NOT_FOUND");
    slow.end();
    await waits(h, pid);
    expect(said(h.requests[1]).join()).not.toContain("wrong");
    await end(h, pid);
  });

  test("fails for a run that has ended, and beyond 64 that wait", async () => {
    const slow = slowTool();
    await using h = new KernelHarness({
      devices: slow.devices,
      model: script(calls(["Slow", {}]), says("ok")),
    });
    const pid = await h.spawn("go");
    await slow.begun;
    for (let i = 0; i < 64; i++) await send(h, pid, `${i}`);
    expect(await codeOf(send(h, pid, "too many"))).toBe("EXHAUSTED");
    slow.end();
    await h.follow(pid);
    expect(["CLOSED", "NOT_FOUND"]).toContain(await codeOf(send(h, pid, "too late")));
  });
});

describe("after kill -9", () => {
  test("a chat that waited waits for the next message, in the same conversation", async () => {
    await using first = new KernelHarness({ model: parrot });
    await using second = new KernelHarness({ model: parrot });
    const pid = await first.spawn("hi", { chat: true });
    const { uuid } = first.kernel.processes.info(pid);
    await waits(first, pid);
    crashInto(second, first);
    const again = await second.kernel.lifecycle.resume(uuid, null, second.opts(), { input: "again" });
    await until(() => second.requests.length === 1);
    expect(said(second.requests[0])).toEqual(["user: hi", "assistant: re: hi", "user: again"]);
    expect(await end(second, again.pid)).toMatchObject({ steps: 2, result: "re: again" });
  });

  test("a queued message and one that resumes the chat are read once, in order", async () => {
    const slow = slowTool();
    await using first = new KernelHarness({
      devices: slow.devices,
      model: script(calls(["Slow", {}]), says("ok")),
    });
    await using second = new KernelHarness({ model: parrot, devices: slowTool().devices });
    const pid = await first.spawn("hi", { chat: true });
    const { uuid } = first.kernel.processes.info(pid);
    await slow.begun;
    const taken = await send(first, pid, "not this");
    await send(first, pid, "queued");
    await first.kernel.chats.takeBack(pid, taken);
    crashInto(second, first);
    slow.end();
    const again = await second.kernel.lifecycle.resume(uuid, null, second.opts(), { input: "new" });
    await until(() => second.requests.length === 1);
    expect(said(second.requests[0]).at(-1)).toBe("user: queued\n\nnew");
    await end(second, again.pid);
    expect((await second.runs.inbox(uuid)).unread).toEqual([]);
  });
});
