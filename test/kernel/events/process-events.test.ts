import { describe, expect, test } from "bun:test";
import type { Channel } from "../../../src/lib/channel.ts";
import { SIGPAUSE, SIGRESUME } from "../../../src/lib/signals.ts";
import { type Device, SyscallError } from "../../../src/plugin/index.ts";
import type { LiveEvent } from "../../../src/run/live-event.ts";
import { FakeClock, settled } from "../../support/fake-clock.ts";
import {
  byIntent,
  calls,
  KernelHarness,
  type Model,
  says,
  script,
  silent,
  toolDevice,
} from "../../support/kernel.ts";
import { until } from "../../support/until.ts";

function texts(events: readonly LiveEvent[]): string[] {
  return events.flatMap((event) => (event.event === "activity" ? [event.activity.text] : []));
}

/** A tool that shows output while it runs, and ends when the test says so. */
function talkingTool(): {
  device: Device;
  begun: Promise<void>;
  show(text: string, skipped?: number): void;
  end(): void;
} {
  const [begun, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let output: ((text: string, skipped?: number) => void) | undefined;
  return {
    begun: begun.promise,
    show: (text, skipped) => output?.(text, skipped),
    end: () => ended.resolve(),
    device: toolDevice("Talk", async (_input, _signal, context) => {
      output = context.output;
      begun.resolve();
      await ended.promise;
      return "over";
    }),
  };
}

/** A run that calls such a tool once. */
function talkingRun() {
  const [clock, tool] = [new FakeClock(), talkingTool()];
  const model = script(calls(["Talk", {}]), says("done"));
  return { clock, tool, options: { clock, model, devices: { "/dev/talk": tool.device } } };
}

/** Collects the events of a channel; it is read from now on. */
function collected(channel: Channel<LiveEvent>): LiveEvent[] {
  const events: LiveEvent[] = [];
  void (async () => {
    for await (const event of channel) events.push(event);
  })();
  return events;
}

async function talking(h: KernelHarness, pid: number, tool: { begun: Promise<void> }): Promise<void> {
  const { uuid } = h.kernel.processes.info(pid);
  await until(() => h.kernel.doing({ uuid })?.text === "Talk", "the call");
  await tool.begun;
  await settled();
}

test("a client that waits for the end gets notices and the end, beside one that gets all", async () => {
  const { tool, ...run } = talkingRun();
  await using h = new KernelHarness(run.options);
  const pid = await h.spawn("talk");
  const [end, all] = [{ watched: "end" } as const, {}].map((o) => collected(h.kernel.attach(pid, o)));
  await talking(h, pid, tool);
  tool.show("a line\n");
  await run.options.clock.advance(100);
  tool.end();
  await until(() => all?.at(-1)?.event === "complete");
  await until(() => end?.at(-1)?.event === "complete");
  expect(end?.map(({ event }) => event)).toEqual(["spawn", "complete"]);
  expect(all?.map(({ event }) => event)).toEqual(expect.arrayContaining(["log", "activity", "tool_output"]));
});

describe("the activity of a run", () => {
  test("names the model's phases, each call and the checks, in order", async () => {
    await using h = new KernelHarness({
      model: script(
        [
          { type: "reasoning_delta", text: "hm" },
          { type: "text_delta", text: "let me see" },
          { type: "text_delta", text: "!" },
          ...calls(["Look", { path: "a.txt" }]),
        ],
        says("done"),
      ),
      devices: { "/dev/look": toolDevice("Look", () => "seen") },
    });
    const { events } = await h.run("top", { check: ["true\n# more"] });
    expect(texts(events)).toEqual([
      "starting",
      "waiting for m",
      "thinking",
      "writing",
      "Look a.txt",
      "writing",
      "waiting for m",
      "writing",
      "checking: true …",
      "ending",
    ]);
    const order = events.map((event) =>
      event.event === "log"
        ? event.entry.kind
        : event.event === "activity"
          ? event.activity.kind
          : event.event,
    );
    expect(order.slice(order.indexOf("usage"), order.lastIndexOf("step"))).toEqual([
      "usage",
      "thought",
      "text",
      "tool",
      "tool",
      "result",
      "model",
    ]);
  });

  test("names calls that run side by side", async () => {
    const all = Promise.withResolvers<string>();
    const wait = (): Promise<string> => all.promise;
    const reading = { annotations: { readOnlyHint: true } };
    await using h = new KernelHarness({
      model: script(
        calls(["Read", { path: "a" }], ["Grep", { pattern: "x" }], ["Read", { path: "b" }]),
        says("done"),
      ),
      devices: {
        "/dev/read": toolDevice("Read", wait, reading),
        "/dev/grep": toolDevice("Grep", wait, reading),
      },
    });
    const pid = await h.spawn("top");
    const { uuid } = h.kernel.processes.info(pid);
    await until(() => h.kernel.doing({ uuid })?.text.startsWith("3 calls") === true, "three calls");
    expect(h.kernel.doing({ uuid })).toMatchObject({ kind: "tool", text: "3 calls: Read ×2, Grep" });
    all.resolve("found");
    await h.follow(pid);
    expect(h.kernel.doing({ uuid })).toBeNull();
  });

  test("is the pause while it is paused, then what it was", async () => {
    await using h = new KernelHarness({ model: silent });
    const pid = await h.spawn("top");
    const channel = h.kernel.attach(pid);
    const events = collected(channel);
    await until(() => texts(events).includes("waiting for m"), "the model");
    h.kernel.processes.kill(pid, SIGPAUSE);
    h.kernel.processes.kill(pid, SIGRESUME);
    await h.kernel.lifecycle.suspend(pid);
    await until(() => events.at(-1)?.event === "complete", "the end");
    expect(texts(events).slice(-4)).toEqual(["waiting for m", "paused", "waiting for m", "being suspended"]);
  });

  test("says what it waits for before a model call: a slot, or a retry and until when", async () => {
    const clock = new FakeClock();
    let failures = 1;
    const answer = Promise.withResolvers<void>();
    const model: Model = async (request) => {
      if (request.intent === "late" && failures-- > 0)
        throw new SyscallError("UNAVAILABLE", "503: overloaded\nhtml", { retryable: true });
      await answer.promise;
      return says("done");
    };
    await using h = new KernelHarness({ model, clock, limits: { model_retries: 3 } });
    const provider = { ...h.opts().provider, concurrency: 1 };
    h.leases--;
    const late = await h.spawn("late", { provider });
    await settled();
    const retrying = h.kernel.doing(h.kernel.processes.info(late));
    expect(retrying).toMatchObject({ kind: "retry", text: "attempt 1 failed: 503: overloaded …" });
    expect(retrying?.until_ms).toBeGreaterThan(clock.now());
    const first = await h.spawn("first", { provider });
    await settled();
    expect(h.kernel.doing(h.kernel.processes.info(first))).toMatchObject({ text: "waiting for m" });
    await clock.advance((retrying?.until_ms ?? 0) - clock.now());
    expect(h.kernel.doing(h.kernel.processes.info(late))).toMatchObject({
      kind: "slot",
      text: "waiting for a free slot of scripted",
      until_ms: null,
    });
    answer.resolve();
    for (const pid of [first, late]) expect((await h.follow(pid)).info.exit_code).toBe(0);
  });

  test("says that it waits for budget which a call beside it has reserved", async () => {
    const held = Promise.withResolvers<void>();
    const wait: Model = async (request) => {
      await held.promise;
      return says(request.intent);
    };
    await using h = new KernelHarness({
      model: byIntent({
        top: [() => calls(["Agent", { intent: "left" }], ["Agent", { intent: "right" }]), () => says("done")],
        left: [wait],
        right: [wait],
      }),
    });
    const pid = await h.spawn("top", { context_budget: 40_000 });
    const doing = (): string[] =>
      h.kernel.processes.infos().map((info) => `${info.intent}: ${h.kernel.doing(info)?.text}`);
    await until(() => doing().some((text) => text.includes("budget")), "the wait");
    expect(doing()).toContain("right: waiting for budget that other calls have reserved");
    held.resolve();
    expect((await h.follow(pid)).info.exit_code).toBe(0);
  });

  test("names the rate limit that the model's key waits for, and its end", async () => {
    const clock = new FakeClock();
    let refusals = 1;
    const model: Model = () => {
      if (refusals-- > 0) throw new SyscallError("EXHAUSTED", "429: too many", { retryAfterMs: 20_000 });
      return says("done");
    };
    await using h = new KernelHarness({ model, clock, limits: { model_retries: 3 } });
    const refused = await h.spawn("refused");
    await settled();
    const next = await h.spawn("next");
    await settled();
    expect(h.kernel.doing(h.kernel.processes.info(next))).toMatchObject({
      kind: "slot",
      text: "waiting for the rate limit of scripted",
      until_ms: clock.now() + 20_000,
    });
    await clock.advance(60_000);
    for (const pid of [refused, next]) expect((await h.follow(pid)).info.exit_code).toBe(0);
  });
});

test("steps and answers have the size of the conversation, and the model's window", async () => {
  await using h = new KernelHarness({
    model: script(calls(["Look", { path: "a" }]), says("done")),
    devices: { "/dev/look": toolDevice("Look", () => "seen") },
  });
  const provider = { ...h.opts().provider, contextWindow: 1_000 };
  h.leases--;
  const { events } = await h.run("top", { provider });
  const sizes = events.flatMap((event) =>
    event.event === "step" || event.event === "usage"
      ? [[event.event, event.context_tokens, event.context_window] as const]
      : [],
  );
  expect(sizes.map(([type, , window]) => [type, window])).toEqual([
    ["step", 1_000],
    ["usage", 1_000],
    ["step", 1_000],
    ["usage", 1_000],
  ]);
  // Before an answer an estimate, then what the provider counted of request and answer.
  expect(sizes[0]?.[1]).toBeGreaterThan(0);
  expect([sizes[1]?.[1], sizes[3]?.[1]]).toEqual([15, 15]);
});

describe("the output of a running call", () => {
  test("comes coalesced and in order, and a client that attaches late gets its end", async () => {
    const { clock, tool, options } = talkingRun();
    await using h = new KernelHarness(options);
    const pid = await h.spawn("top");
    const events = collected(h.kernel.attach(pid));
    await talking(h, pid, tool);
    for (let i = 1; i <= 100; i++) tool.show(`line ${i}\n`);
    await clock.advance(50);
    tool.show("half");
    tool.show(" a line");
    await clock.advance(50);
    const outputs = events.flatMap((event) => (event.event === "tool_output" ? [event] : []));
    expect(outputs.map(({ text, lines }) => [text.length, lines])).toEqual([
      [Array.from({ length: 100 }, (_, i) => `line ${i + 1}\n`).join("").length, 100],
      ["half a line".length, 100],
    ]);
    const late = collected(h.kernel.attach(pid));
    await settled();
    expect(late.map((event) => (event.event === "log" ? event.entry.kind : event.event))).toEqual([
      "spawn",
      "step",
      "tool",
      "tool_output",
      "activity",
    ]);
    const [state] = late.flatMap((event) => (event.event === "tool_output" ? [event] : []));
    expect(state?.text).toEndWith("line 100\nhalf a line");
    tool.end();
    await h.follow(pid);
    expect(events.flatMap((event) => (event.event === "log" ? [event.entry.call?.result] : []))).toContain(
      "over",
    );
  });

  test("is bounded, and needs no timer while no client is attached", async () => {
    const { clock, tool, options } = talkingRun();
    await using h = new KernelHarness(options);
    const pid = await h.kernel.processes.spawn("top", null, h.opts());
    await talking(h, pid, tool);
    const timers = clock.pending;
    const line = `${"x".repeat(99)}\n`;
    for (let i = 0; i < 100_000; i++) tool.show(line);
    tool.show("", 500);
    expect(clock.pending).toBe(timers);
    const events = collected(h.kernel.attach(pid));
    for (let i = 0; i < 100_000; i++) tool.show(line);
    await clock.advance(50);
    const outputs = events.flatMap((event) => (event.event === "tool_output" ? [event] : []));
    expect(outputs.map(({ text, lines }) => [text.length <= 8 * 1024, lines])).toEqual([
      [true, 100_500],
      [true, 200_500],
    ]);
    tool.end();
    await h.kernel.processes.wait(pid);
  });

  test("shows no key, also when it comes in two pieces", async () => {
    const { clock, tool, options } = talkingRun();
    await using h = new KernelHarness(options);
    const pid = await h.spawn("top", { secrets: ["sk-very-secret"] });
    const events = collected(h.kernel.attach(pid));
    await talking(h, pid, tool);
    for (const piece of ["key: sk-very", "-secret\n", "sk-very-secret again\n"]) {
      tool.show(piece);
      await clock.advance(50);
    }
    tool.end();
    await h.follow(pid);
    const shown = events.flatMap((event) => (event.event === "tool_output" ? [event.text] : [])).join("");
    expect(shown).toBe("key: [key]\n[key] again\n");
  });
});

describe("the children of a run", () => {
  test("are shown to the watchers of all their ancestors, and to one that attaches late", async () => {
    const clock = new FakeClock();
    const held = Promise.withResolvers<void>();
    const agent =
      (intent: string): Model =>
      () =>
        calls(["Agent", { intent }]);
    await using h = new KernelHarness({
      model: byIntent({
        top: [() => calls(["Agent", { intent: "left" }], ["Agent", { intent: "right" }]), () => says("done")],
        left: [agent("leaf"), () => says("left")],
        right: [() => says("right")],
        leaf: [
          async () => {
            await held.promise;
            return says("leaf");
          },
        ],
      }),
      clock,
    });
    const pid = await h.spawn("top");
    const events = collected(h.kernel.attach(pid));
    const states = () => events.flatMap((event) => (event.event === "child" ? [event.child] : []));
    await until(() => states().some(({ intent }) => intent === "leaf"), "the leaf");
    await until(() => h.kernel.processes.infos().length === 3, "the end of the right one");
    const late = collected(h.kernel.attach(pid));
    await settled();
    const { uuid } = h.kernel.processes.info(pid);
    const now = late.flatMap((event) => (event.event === "child" ? [event.child] : []));
    expect(now.map(({ intent, state }) => [intent, state])).toEqual([
      ["left", "running"],
      ["leaf", "running"],
    ]);
    expect(now[1]).toMatchObject({ parent_uuid: now[0]?.uuid, doing: { text: "waiting for m" } });
    expect(now[0]).toMatchObject({ parent_uuid: uuid, doing: { kind: "tool", text: "Agent leaf" } });
    held.resolve();
    await h.follow(pid);
    const ends = states().filter(({ state }) => state !== "running");
    expect(ends.map(({ intent, state, tokens_used, doing }) => [intent, state, tokens_used, doing])).toEqual([
      ["right", "done", 15, null],
      ["leaf", "done", 15, null],
      ["left", "done", 45, null],
    ]);
    const used = events.flatMap((event) => (event.event === "usage" ? [event.tokens_used] : []));
    expect(used).toEqual(used.toSorted((a, b) => a - b));
    expect(used.at(-1)).toBe(90);
  });

  test("send at most one state in 100 ms between their start and their end", async () => {
    const clock = new FakeClock();
    const busy = Array.from({ length: 20 }, () => () => calls(["Look", { path: "a" }]));
    await using h = new KernelHarness({
      model: byIntent({
        top: [() => calls(["Agent", { intent: "busy" }]), () => says("done")],
        busy: [...busy, () => says("busy")],
      }),
      devices: { "/dev/look": toolDevice("Look", () => String(Math.random())) },
      clock,
    });
    const { events } = await h.run("top");
    const states = events.flatMap((event) => (event.event === "child" ? [event.child] : []));
    expect(states.map(({ state, step }) => [state, step])).toEqual([
      ["running", 0],
      ["done", 21],
    ]);
  });
});

describe("a call that does not begin", () => {
  test.each([
    ["an input that does not fit", "Strict", { size: "big" }, "INVALID"],
    ["an unknown tool", "Nothing", { a: 1 }, "NOT_FOUND"],
  ])("because of %s is in the log with its input", async (_why, name, input, code) => {
    const schema = { type: "object", properties: { size: { type: "integer" } } };
    await using h = new KernelHarness({
      model: script(calls([name, input]), says("done")),
      devices: { "/dev/strict": toolDevice("Strict", () => "never", { input: schema }) },
    });
    const { events } = await h.run("top");
    const entries = events.flatMap((event) =>
      event.event === "log" && event.entry.call ? [event.entry] : [],
    );
    expect(entries).toMatchObject([
      { kind: "tool", call: { name, input, state: "running" } },
      { kind: "result", call: { name, input, state: "failed", error_code: code } },
    ]);
  });
});
