import { describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import shell from "../../../plugins/shell.ts";
import type { Device, LLMRequest } from "../../../src/plugin/index.ts";
import { settled } from "../../support/fake-clock.ts";
import {
  calls,
  KernelHarness,
  type Model,
  SILENCE,
  says,
  script,
  silent,
  toolDevice,
} from "../../support/kernel.ts";
import { crashInto } from "../../support/sealed-record.ts";
import { until } from "../../support/until.ts";
import { said, send, waits } from "./support.ts";

const NOTE = "Too short to be cut. ".repeat(30);

const NOTHING = { interrupted: null, text_seen: false, put_back: [] };

function shellDevices(): Record<string, Device> {
  const device = shell.devices?.["/dev/shell"];
  if (!device) throw new Error("the shell has no device");
  return { "/dev/shell": device };
}

describe("an interrupted model call", () => {
  test("leaves nothing when no text had arrived: the message can be taken back", async () => {
    await using h = new KernelHarness({
      model: (request, signal) => (h.requests.length === 1 ? silent(request, signal) : says("ok")),
    });
    const pid = await h.spawn("wrong", { chat: true });
    await until(() => h.requests.length === 1);
    expect(await h.kernel.chats.interrupt(pid)).toEqual({
      interrupted: "model",
      text_seen: false,
      put_back: [1],
    });
    await waits(h, pid);
    expect(await h.kernel.chats.interrupt(pid)).toEqual(NOTHING);
    expect(h.kernel.processes.info(pid)).toMatchObject({ steps: 0, steps_used: 0 });
    expect((await h.kernel.chats.takeBack(pid, 1)).text).toBe("wrong");
    await send(h, pid, "right");
    await until(() => h.requests.length === 2);
    expect(said(h.requests[1])).toEqual(["user: right"]);
    await waits(h, pid);
    await h.kernel.chats.end(pid);
    const { info, events } = await h.follow(pid);
    expect(info).toMatchObject({ exit_code: 0, steps: 1, result: "ok" });
    const messages = events.filter((event) => event.event === "message");
    expect(messages.map(({ seq, state }) => `${seq} ${state}`)).toEqual([
      "1 queued",
      "1 read",
      "1 queued",
      "1 taken_back",
      "2 queued",
      "2 read",
    ]);
    expect((await h.runs.inbox(info.uuid)).unread).toEqual([]);
  });

  test("without text: a message that is not taken back is read with the next one", async () => {
    await using h = new KernelHarness({
      model: (request, signal) => (h.requests.length === 1 ? silent(request, signal) : says("ok")),
    });
    const pid = await h.spawn("first", { chat: true });
    await until(() => h.requests.length === 1);
    await h.kernel.chats.interrupt(pid);
    await send(h, pid, "second");
    await until(() => h.requests.length === 2);
    expect(said(h.requests[1])).toEqual(["user: first\n\nsecond"]);
    await waits(h, pid);
    await h.kernel.chats.end(pid);
  });

  test("keeps its text, marked as interrupted, and any run then waits for a message", async () => {
    for (const chat of [true, false]) {
      await using h = new KernelHarness({
        model: script(
          [{ type: "text_delta", text: "The answer " }, { type: "text_delta", text: "is 4" }, SILENCE],
          says("42"),
        ),
      });
      const pid = await h.spawn("what?", { chat });
      const channel = h.kernel.attach(pid);
      let text = "";
      for await (const event of channel) {
        if (event.event === "text_delta") text += event.text;
        if (text === "The answer is 4") break;
      }
      expect(await h.kernel.chats.interrupt(pid)).toEqual({
        interrupted: "model",
        text_seen: true,
        put_back: [],
      });
      const { uuid } = h.kernel.processes.info(pid);
      const [step] = (await h.runs.steps(uuid)).records;
      expect(step).toMatchObject({ interrupted: true, raw_response: "The answer is 4", action: "text" });
      expect(h.kernel.processes.info(pid)).toMatchObject({ result: "The answer is 4", partial: true });
      await send(h, pid, "go on");
      await until(() => h.requests.length === 2);
      expect(said(h.requests[1])).toEqual([
        "user: what?",
        "assistant: The answer is 4",
        "user: <system-reminder>The user interrupted your last answer: it is incomplete.</system-reminder>\ngo on",
      ]);
      if (chat) {
        await waits(h, pid);
        await h.kernel.chats.end(pid);
      }
      expect((await h.follow(pid)).info).toMatchObject({ exit_code: 0, result: "42", partial: false });
    }
  });

  test("of a run that is suspended then: the next message resumes it, also after kill -9", async () => {
    const model = script([{ type: "text_delta", text: "The answer" }, SILENCE], says("42"), says("42"));
    await using first = new KernelHarness({ model });
    await using second = new KernelHarness({ model });
    const pid = await first.spawn("what?");
    for await (const event of first.kernel.attach(pid)) if (event.event === "text_delta") break;
    await first.kernel.chats.interrupt(pid);
    await waits(first, pid);
    crashInto(second, first);
    const { suspended } = await first.kernel.lifecycle.suspend(pid);
    expect(suspended?.wake).toEqual({ on: "message" });
    const { uuid } = (await first.follow(pid)).info;
    for (const h of [first, second]) {
      const resume = h.kernel.lifecycle.resume(uuid, null, h.opts());
      expect(await resume.then(() => "resumed", String)).toContain("Add a message");
      const input = { input: "go on" };
      expect((await h.resumed(uuid, input)).info).toMatchObject({ exit_code: 0, result: "42", steps: 2 });
      expect(said(h.requests.at(-1)).at(-1)).toContain("incomplete.</system-reminder>\ngo on");
    }
  });

  test("that summarises the conversation leaves nothing: its text is no answer", async () => {
    const isAside = ({ messages }: LLMRequest): boolean =>
      messages.at(-1)?.content.startsWith("[From rnix") === true;
    const summary = Promise.withResolvers<void>();
    await using h = new KernelHarness({
      devices: { "/dev/note": toolDevice("Note", ({ text }) => String(text)) },
      limits: { context_window: 6_000 },
      model: (request) => {
        if (!isAside(request)) return calls(["Note", { n: h.requests.length, text: NOTE }]);
        summary.resolve();
        return [{ type: "text_delta", text: "A summary that" }, SILENCE];
      },
    });
    const pid = await h.spawn("go", { chat: true });
    await summary.promise;
    await settled();
    expect(await h.kernel.chats.interrupt(pid)).toMatchObject({ interrupted: "model", text_seen: false });
    await h.kernel.lifecycle.suspend(pid);
    expect((await h.follow(pid)).info.result ?? "").not.toContain("summary");
  });

  test("ends a wait between retries, too", async () => {
    await using h = new KernelHarness({
      limits: { model_retries: 5, model_retry_time: 600_000 },
      model: () => {
        if (h.requests.length > 1) return says("ok");
        return [{ type: "error", code: "UNAVAILABLE", message: "down" }];
      },
    });
    const pid = await h.spawn("hi", { chat: true });
    for await (const event of h.kernel.attach(pid)) if (event.event === "retry") break;
    expect(await h.kernel.chats.interrupt(pid)).toMatchObject({ interrupted: "model", put_back: [1] });
    await h.kernel.lifecycle.suspend(pid);
  });
});

describe("interrupted tool calls", () => {
  test("end their programs, keep what was printed, and the calls after them are not made", async () => {
    await using h = new KernelHarness({
      devices: { ...shellDevices(), "/dev/note": toolDevice("Note", () => "noted") },
      needs: { "/dev/shell": ["exec"] },
      model: script(
        calls(["Bash", { command: "echo begun; touch begun; sleep 60; touch never" }], ["Note", {}]),
        says("ok"),
      ),
    });
    const pid = await h.spawn("go", { chat: true });
    const { uuid } = h.kernel.processes.info(pid);
    await until(() => existsSync(join(h.project, "begun")), "the command has begun");
    expect(await h.kernel.chats.interrupt(pid)).toEqual({
      interrupted: "tools",
      text_seen: false,
      put_back: [],
    });
    expect(h.children.list()).toEqual([]);
    await waits(h, pid);
    const [step] = (await h.runs.steps(uuid)).records;
    expect(step).toMatchObject({
      interrupted: true,
      tool_calls: [
        { name: "Bash", state: "cancelled", error_code: "CANCELLED", result: "begun" },
        { name: "Note", state: "cancelled", result: null },
      ],
    });
    await send(h, pid, "do it otherwise");
    await until(() => h.requests.length === 2);
    expect(said(h.requests[1]).slice(-3)).toEqual([
      "tool: Error CANCELLED: The user interrupted this call. It was cancelled, and may have taken effect in part.\nbegun",
      "tool: Error CANCELLED: The user interrupted the work before Note started: nothing was done.",
      "user: do it otherwise",
    ]);
    await waits(h, pid);
    await h.kernel.chats.end(pid);
    expect((await h.follow(pid)).info).toMatchObject({ exit_code: 0, result: "ok" });
  });

  test("end a program that ignores TERM at the second interruption", async () => {
    await using h = new KernelHarness({
      devices: shellDevices(),
      needs: { "/dev/shell": ["exec"] },
      limits: { grace: 600_000 },
      model: script(calls(["Bash", { command: "trap '' TERM; touch begun; while :; do sleep 0.01; done" }])),
    });
    const pid = await h.spawn("go", { chat: true });
    await until(() => existsSync(join(h.project, "begun")), "the command has begun");
    const first = h.kernel.chats.interrupt(pid);
    const second = h.kernel.chats.interrupt(pid);
    expect(await first).toMatchObject({ interrupted: "tools" });
    expect(await second).toMatchObject({ interrupted: "tools" });
    expect(h.children.list()).toEqual([]);
    await h.kernel.lifecycle.suspend(pid);
  });

  test("end child agents, whose end is no failure of the run", async () => {
    const model: Model = (request, signal) => {
      if (request.intent === "child") return silent(request, signal);
      return request.messages.length === 1
        ? calls(["Agent", { intent: "child" }], ["Agent", { intent: "child" }])
        : says("ok");
    };
    await using h = new KernelHarness({ model });
    const pid = await h.spawn("go");
    await until(() => h.requests.filter(({ intent }) => intent === "child").length === 2);
    expect(await h.kernel.chats.interrupt(pid)).toMatchObject({ interrupted: "tools" });
    expect(h.kernel.processes.infos().filter(({ exit_code }) => exit_code === null)).toHaveLength(1);
    await send(h, pid, "without them");
    const { info } = await h.follow(pid);
    expect(info).toMatchObject({ exit_code: 0, exit_reason: "completed", result: "ok" });
    expect(info.children).toMatchObject([
      { exit_reason: "interrupted", interrupted: true },
      { exit_reason: "interrupted", interrupted: true },
    ]);
  });

  test("withdraw the question that a call waits for", async () => {
    await using h = new KernelHarness({
      devices: { "/dev/note": toolDevice("Note", () => "noted") },
      model: script(calls(["Note", {}]), says("ok")),
    });
    const pid = await h.spawn("go", { chat: true, ask: ["Note"], attended: true });
    const events = h.kernel.attach(pid, { answers: true })[Symbol.asyncIterator]();
    // The client stays: without one the question would be decided at once.
    while ((await events.next()).value?.event !== "ask") {}
    expect(await h.kernel.chats.interrupt(pid)).toMatchObject({ interrupted: "tools" });
    const { uuid } = h.kernel.processes.info(pid);
    const [step] = (await h.runs.steps(uuid)).records;
    expect(step?.tool_calls).toMatchObject([{ name: "Note", state: "cancelled" }]);
    await waits(h, pid);
    await send(h, pid, "never mind");
    await until(() => h.requests.length === 2);
    await waits(h, pid);
    await h.kernel.chats.end(pid);
    expect((await h.follow(pid)).info).toMatchObject({ exit_code: 0, result: "ok" });
  });

  test("a run that does nothing is not interrupted", async () => {
    await using h = new KernelHarness({ model: script(says("hello")) });
    const pid = await h.spawn("hi", { chat: true });
    await waits(h, pid);
    expect(await h.kernel.chats.interrupt(pid)).toEqual(NOTHING);
    expect(h.kernel.chats.waits(pid)).toBe(true);
    await h.kernel.chats.end(pid);
  });
});
