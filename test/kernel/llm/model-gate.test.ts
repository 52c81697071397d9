import { describe, expect, test } from "bun:test";
import type { ModelDevice, ModelRequest } from "../../../src/kernel/llm/model-device.ts";
import type { Retry } from "../../../src/kernel/llm/model-gate.ts";
import { Secrets } from "../../../src/kernel/process/secrets.ts";
import { type LLMEvent, SyscallError, type Usage } from "../../../src/plugin/index.ts";
import { failure } from "../../support/failure.ts";
import { FakeClock, settled } from "../../support/fake-clock.ts";
import { type Attempt, ScriptedDevice, text, USAGE } from "./scripted-device.ts";
import { TestGate } from "./test-gate.ts";

describe("an answer", () => {
  test("is assembled from its events, and the events are emitted as they come", async () => {
    const call = { id: "c1", name: "Read", input: { file_path: "a" } };
    const { gate, options, events } = setUp();
    const device = new ScriptedDevice([
      { type: "reasoning_delta", text: "hm" },
      { type: "text_delta", text: "Let me " },
      { type: "text_delta", text: "look" },
      { type: "tool_call", call },
      { type: "usage", usage: USAGE },
      { type: "stop", reason: "tool_calls" },
    ]);
    expect(await gate.call("k", device, request(), options)).toEqual({
      content: "Let me look",
      reasoning: "hm",
      tool_calls: [call],
      stop_reason: "tool_calls",
      usage: USAGE,
      tokens_used: 12,
    });
    expect(events.map((event) => event.type)).toEqual([
      "reasoning_delta",
      "text_delta",
      "text_delta",
      "tool_call",
      "usage",
      "stop",
    ]);
  });

  test("shows no key, for every split of the stream and in every part of the answer", async () => {
    const key = "sk-live-0123456789";
    const call = { id: "c1", name: "Bash", input: { command: `echo ${key}`, more: [key] } };
    const { gate, options, events } = setUp();
    const scripted = new ScriptedDevice([
      { type: "reasoning_delta", text: "it is sk-li" },
      { type: "text_delta", text: "my sk-live-" },
      { type: "reasoning_delta", text: "ve-01234" },
      { type: "text_delta", text: "0123" },
      { type: "reasoning_delta", text: "56789, or sk-lime" },
      { type: "tool_call", call },
      { type: "text_delta", text: "456789 and sk-live" },
      { type: "usage", usage: USAGE },
      { type: "stop", reason: "tool_calls" },
    ]);
    const device: ModelDevice = {
      write: (data, signal) => scripted.write(data, signal),
      read: (max, signal) => scripted.read(max, signal),
      secrets: new Secrets({ keys: [key] }),
    };
    const answer = await gate.call("k", device, request(), options);
    expect(answer).toMatchObject({
      content: "my [key] and sk-live",
      reasoning: "it is [key], or sk-lime",
      tool_calls: [{ input: { command: "echo [key]", more: ["[key]"] } }],
    });
    const emitted = (type: string): string =>
      events.map((event) => (event.type === type && "text" in event ? event.text : "")).join("");
    expect([emitted("text_delta"), emitted("reasoning_delta")]).toEqual([
      answer.content,
      answer.reasoning ?? "",
    ]);
    expect(events.at(-1)?.type).toBe("stop");
  });

  test("without a stream is read whole, and the plain format is understood", async () => {
    const { gate, options } = setUp();
    const whole = {
      content: "hi",
      tool_calls: [],
      stop_reason: "end_turn" as const,
      usage: USAGE,
      tokens_used: 12,
    };
    const plain = { ...request(), stream: false };
    expect(await gate.call("k", new ScriptedDevice([whole]), plain, options)).toEqual(whole);
    const seeds: ModelDevice = {
      write: async () => {},
      read: async () => '{"content":"hi","tokens_used":7}',
    };
    expect(await gate.call("k", seeds, plain, options)).toMatchObject({ content: "hi", tokens_used: 7 });
  });

  test("may say what the provider's rate limits are, streamed or whole", async () => {
    const limits = { requests: { limit: 50, remaining: 49, reset_ms: 1200 }, tokens: { remaining: 0 } };
    const { gate, options, events } = setUp();
    const streamed = new ScriptedDevice([{ type: "limits", limits }, ...text("hi")]);
    expect(await gate.call("k", streamed, request(), options)).not.toHaveProperty("limits");
    const whole = new ScriptedDevice([
      { content: "hi", tool_calls: [], stop_reason: "end_turn", usage: USAGE, tokens_used: 12, limits },
    ]);
    const plain = { ...request(), stream: false };
    expect(await gate.call("k", whole, plain, options)).not.toHaveProperty("limits");
    expect(events.filter(({ type }) => type === "limits")).toEqual([
      { type: "limits", limits },
      { type: "limits", limits },
    ]);
  });

  test("longer than one read is assembled from its pieces", async () => {
    const { gate, options } = setUp();
    const long = "é".repeat(1_500_000);
    for (const encode of [(part: string) => part, (part: string) => new TextEncoder().encode(part)]) {
      const answer = encode(JSON.stringify({ content: long }));
      let at = 0;
      const device: ModelDevice = {
        write: async () => {},
        read: async (max) => {
          const piece = answer.slice(at, at + max);
          at += max;
          return piece;
        },
      };
      const got = await gate.call("k", device, { ...request(), stream: false }, options);
      expect(got.content === long).toBe(true);
    }
  });

  test("without a reported cost is given an estimate", async () => {
    const { gate, options } = setUp();
    const device = new ScriptedDevice([{ type: "text_delta", text: "x".repeat(400) }, stopped("end_turn")]);
    const asked = { ...request(), system_prompt: "y".repeat(4000) };
    const { usage } = await gate.call("k", device, asked, options);
    expect(usage.input_tokens).toBeGreaterThan(1000);
    expect(usage.output_tokens).toBe(100);
  });

  test.each([
    ["less than nothing", [-100_000, 5, 0], [0, 5, 0]],
    ["parts of a token", [10.4, 5.5, 0.2], [10, 6, 0]],
    ["more than any model takes", [1e300, 5, 0], [1e9, 5, 0]],
    ["more from its cache than there was: it counts them apart", [10, 5, 90], [100, 5, 90]],
    ["what comes from its cache below nothing", [10, 5, -90], [10, 5, 0]],
  ] as [string, Counts, Counts][])("never reports a usage of %s", async (_, reported, counted) => {
    const said = { ...usageOf(reported), cost_usd: -3 };
    const usage = usageOf(counted);
    const { gate, options, events } = setUp();
    const streamed = new ScriptedDevice([
      { type: "text_delta", text: "hi" },
      { type: "usage", usage: said },
      { type: "stop", reason: "end_turn" },
    ]);
    expect((await gate.call("k", streamed, request(), options)).usage).toEqual(usage);
    expect(events).toContainEqual({ type: "usage", usage });
    const whole = new ScriptedDevice([
      { content: "hi", tool_calls: [], stop_reason: "end_turn", usage: said, tokens_used: -1 },
    ]);
    const plain = { ...request(), stream: false };
    expect((await gate.call("k", whole, plain, options)).usage).toEqual(usage);
  });

  test("without an end is cut at a limit", async () => {
    const { gate, options } = setUp();
    const endless = JSON.stringify({ type: "text_delta", text: "x".repeat(1_000_000) });
    const device: ModelDevice = { write: async () => {}, read: async () => endless };
    await expect(gate.call("k", device, request(), options)).rejects.toMatchObject({ code: "DRIVER" });
  });

  test("an empty delta keeps it alive and is not emitted", async () => {
    const { gate, options, events } = setUp();
    const device = new ScriptedDevice([{ type: "reasoning_delta", text: "" }, ...text("done")]);
    expect(await gate.call("k", device, request(), options)).toMatchObject({ content: "done" });
    expect(events.map((event) => event.type)).toEqual(["text_delta", "usage", "stop"]);
  });
});

const stopped = (reason: "end_turn" | "tool_calls" | "max_tokens" | "refusal" | "unknown"): LLMEvent => ({
  type: "stop",
  reason,
});
const said: LLMEvent = { type: "text_delta", text: "half" };
const called: LLMEvent = { type: "tool_call", call: { id: "c", name: "Bash", input: {} } };

describe("retryable failures", () => {
  const retried: [string, Attempt][] = [
    ["429", [new SyscallError("EXHAUSTED", "slow down")]],
    ["5xx and 529", [new SyscallError("UNAVAILABLE", "overloaded", { retryable: true })]],
    ["a refused connection", [new SyscallError("UNAVAILABLE", "connection refused")]],
    ["garbage the driver calls retryable", [new SyscallError("DRIVER", "garbage", { retryable: true })]],
    ["an error event", [said, { type: "error", code: "UNAVAILABLE", message: "overloaded" }]],
    ["an answer cut without a stop", [said]],
    ["a cut answer with a tool call in it", [called]],
    ["an answer whose end is unknown", [said, stopped("unknown")]],
    ["a thrown cut in the middle", [said, new SyscallError("UNAVAILABLE", "reset")]],
    ["an empty answer", [stopped("end_turn")]],
    ["an answer of white space", [{ type: "text_delta", text: " \n" }, stopped("end_turn")]],
    ["an answer that says tool calls and has none", [said, stopped("tool_calls")]],
    ["nothing at all", []],
  ];
  for (const [name, broken] of retried)
    test(`${name}: the next attempt's answer counts, and nothing of the broken one`, async () => {
      const { gate, clock, options, retries } = setUp();
      const device = new ScriptedDevice(broken, text("whole"));
      const answer = gate.call("k", device, request(), options);
      await clock.advance(1000);
      expect(await answer).toMatchObject({ content: "whole", tool_calls: [] });
      expect(device.requests).toEqual([JSON.stringify(request()), JSON.stringify(request())]);
      expect(retries).toHaveLength(1);
      expect(clock.pending).toBe(0);
    });

  const final: [string, Attempt, string][] = [
    ["a wrong key", [new SyscallError("PERMISSION", "no")], "PERMISSION"],
    ["an unknown model", [new SyscallError("NOT_FOUND", "no")], "NOT_FOUND"],
    ["an invalid request", [new SyscallError("INVALID", "no")], "INVALID"],
    [
      "a quota the driver calls final",
      [new SyscallError("EXHAUSTED", "pay", { retryable: false })],
      "EXHAUSTED",
    ],
    ["a driver's plain failure", [new SyscallError("DRIVER", "no")], "DRIVER"],
    ["a refusal without a word", [stopped("refusal")], "DRIVER"],
    ["an output limit used up without a word", [stopped("max_tokens")], "DRIVER"],
  ];
  for (const [name, attempt, code] of final)
    test(`${name} is not retried`, async () => {
      const { gate, clock, options, retries } = setUp();
      const device = new ScriptedDevice(attempt);
      await expect(gate.call("k", device, request(), options)).rejects.toMatchObject({ code });
      expect(device.requests).toHaveLength(1);
      expect(retries).toEqual([]);
      expect(clock.pending).toBe(0);
    });

  test("an error of a driver that is no SyscallError is DRIVER, after one attempt", async () => {
    const { gate, options } = setUp();
    const device: ModelDevice = { write: () => Promise.reject(new TypeError("oops")), read: async () => "" };
    await expect(gate.call("k", device, request(), options)).rejects.toMatchObject({ code: "DRIVER" });
  });

  test("bytes that are no JSON and unknown events are DRIVER", async () => {
    const { gate, clock, options } = setUp();
    for (const answer of ["<html>", '{"type":"video"}']) {
      const device: ModelDevice = { write: async () => {}, read: async () => answer };
      const call = gate.call("k", device, request(), { ...options, retries: 0 });
      await expect(call).rejects.toMatchObject({ code: "DRIVER" });
    }
    expect(clock.pending).toBe(0);
  });
});

describe("retries", () => {
  test("are two after half a second and one, jittered, and then the last error is thrown", async () => {
    const { gate, clock, options, retries } = setUp(() => 0.5);
    const device = new ScriptedDevice(
      [new SyscallError("UNAVAILABLE", "first")],
      [new SyscallError("UNAVAILABLE", "second")],
      [new SyscallError("UNAVAILABLE", "third")],
    );
    const call = gate.call("k", device, request(), options);
    const outcome = failure(call);
    await clock.advance(374);
    expect(device.requests).toHaveLength(1);
    await clock.advance(1);
    expect(device.requests).toHaveLength(2);
    await clock.advance(750);
    expect(await outcome).toMatchObject({
      code: "UNAVAILABLE",
      message: "third. It was tried 3 times: try again later, or use another model or provider",
    });
    expect(device.requests).toHaveLength(3);
    expect(retries.map(({ attempt, delayMs }) => [attempt, delayMs])).toEqual([
      [1, 375],
      [2, 750],
    ]);
    expect(clock.pending).toBe(0);
  });

  test("have growing waits until their time is over, and the last one is made at its end", async () => {
    const { gate, clock, options, retries } = setUp(() => 0.5);
    const device = new ScriptedDevice([new SyscallError("UNAVAILABLE", "down")]);
    const o = { ...options, retries: Infinity, retryMs: 300_000 };
    const outcome = failure(gate.call("k", device, request(), o));
    await clock.advance(299_999);
    expect(device.requests).toHaveLength(retries.length);
    await clock.advance(1);
    const waits = retries.map(({ delayMs }) => delayMs);
    expect(waits.slice(0, 8)).toEqual([375, 750, 1500, 3000, 6000, 12_000, 22_500, 22_500]);
    expect(waits.reduce((sum, ms) => sum + ms)).toBe(300_000);
    expect(retries.map(({ leftMs }) => leftMs).slice(0, 3)).toEqual([300_000, 299_625, 298_875]);
    const tries = waits.length + 1;
    expect(await outcome).toMatchObject({
      code: "UNAVAILABLE",
      message: `down. It was tried ${tries} times within 5m: try again later, or use another model or provider`,
    });
    expect(device.requests).toHaveLength(tries);
    expect(clock.pending).toBe(0);
  });

  test("start their time with the first failure, not with the call", async () => {
    const { gate, clock, options, retries } = setUp(() => 0.5);
    const one = { ...options, concurrency: 1, retries: Infinity, retryMs: 1_000 };
    const line = new Line();
    const before = gate.call("k", line.device("before"), request(), one);
    const device = new ScriptedDevice([new SyscallError("UNAVAILABLE", "down")], text("ok"));
    const call = gate.call("k", device, request(), one);
    await clock.advance(60_000);
    line.finish("before");
    await before;
    await clock.advance(375);
    expect(await call).toMatchObject({ content: "ok" });
    expect(retries).toMatchObject([{ attempt: 1, leftMs: 1_000 }]);
  });

  test.each([
    [1_000, 1],
    [7_000, 2],
  ])("within %i ms, where the provider asks for a wait of 7 s: %i attempts", async (retryMs, tries) => {
    const { gate, clock, options } = setUp(() => 1);
    const device = new ScriptedDevice([new SyscallError("EXHAUSTED", "slow down", { retryAfterMs: 7_000 })]);
    const o = { ...options, retries: Infinity, retryMs };
    const outcome = failure(gate.call("k", device, request(), o));
    await clock.advance(20_000);
    expect(await outcome).toMatchObject({ code: "EXHAUSTED", resetAtMs: undefined });
    expect(device.requests).toHaveLength(tries);
  });

  test("wait for Retry-After, and a little more", async () => {
    const { gate, clock, options, retries } = setUp(() => 1);
    const limited = new SyscallError("EXHAUSTED", "slow down", { retryAfterMs: 7000 });
    const device = new ScriptedDevice([limited], text("ok"));
    const call = gate.call("k", device, request(), options);
    await clock.advance(7699);
    expect(device.requests).toHaveLength(1);
    await clock.advance(1);
    expect(await call).toMatchObject({ content: "ok" });
    expect(retries[0]?.delayMs).toBe(7700);
  });

  test("wait until a quota window ends when only that is known", async () => {
    const { gate, clock, options, retries } = setUp(() => 0);
    const limited = new SyscallError("EXHAUSTED", "quota", { resetAtMs: clock.now() + 20_000 });
    const call = gate.call("k", new ScriptedDevice([limited], text("ok")), request(), options);
    await clock.advance(20_000);
    expect(await call).toMatchObject({ content: "ok" });
    expect(retries[0]?.delayMs).toBe(20_000);
  });

  test("end at once when the requested wait is longer than the remaining time", async () => {
    const { gate, clock, options, retries } = setUp();
    const limited = new SyscallError("EXHAUSTED", "come back tomorrow", { retryAfterMs: 86_400_000 });
    const device = new ScriptedDevice([limited], text("never"));
    await expect(gate.call("k", device, request(), options)).rejects.toMatchObject({
      code: "EXHAUSTED",
      retryAfterMs: 86_400_000,
      resetAtMs: clock.now() + 86_400_000,
    });
    expect(device.requests).toHaveLength(1);
    expect(retries).toEqual([]);
    expect(clock.pending).toBe(0);
  });

  test.each([{ retryAfterMs: 1e300 }, { retryAfterMs: Number.POSITIVE_INFINITY }, { resetAtMs: 1e300 }])(
    "for a wait without end (%o) is over in a year: what has no date can't be shown",
    async (detail) => {
      const { gate, clock, options } = setUp();
      const device = new ScriptedDevice([new SyscallError("EXHAUSTED", "go away", detail)]);
      const error = await failure(gate.call("k", device, request(), options));
      const year = 365 * 24 * 3_600_000;
      expect(error).toMatchObject({ code: "EXHAUSTED", resetAtMs: clock.now() + year });
      expect(gate.status()[0]?.holds).toMatchObject([{ until_ms: clock.now() + year, left_ms: year }]);
    },
  );

  test("ignore a wait that is over already", async () => {
    const { gate, clock, options } = setUp();
    const over = new SyscallError("EXHAUSTED", "slow down", { retryAfterMs: 0 });
    const call = failure(gate.call("k", new ScriptedDevice([over]), request(), options));
    await clock.advance(10_000);
    const message = "slow down. It was tried 3 times: try again later, or use another model or provider";
    expect(await call).toMatchObject({ message });
  });

  test("use their own delays where the requested wait is no number", async () => {
    const { gate, clock, options } = setUp();
    const odd = new SyscallError("EXHAUSTED", "slow down", { retryAfterMs: Number.NaN });
    const call = gate.call("k", new ScriptedDevice([odd], text("ok")), request(), options);
    await clock.advance(1000);
    expect(await call).toMatchObject({ content: "ok" });
    expect(clock.pending).toBe(0);
  });

  test.each([
    ["EXHAUSTED", 1, { retries: 5, patienceMs: 6_999 }, true],
    ["UNAVAILABLE", 1, { retries: 5, patienceMs: 6_999 }, true],
    ["EXHAUSTED", 1, { retries: 0, patienceMs: 6_999 }, true],
    ["EXHAUSTED", 2, { retries: 1, patienceMs: 7_000 }, false],
  ] as const)("%s after %i tries with %o: a wait beyond its patience %p", async (code, tries, o, window) => {
    const { gate, clock, options } = setUp(() => 0);
    const limited = new SyscallError(code, "slow down", { retryAfterMs: 7_000 });
    const device = new ScriptedDevice([limited], [limited], text("never"));
    const outcome = failure(gate.call("k", device, request(), { ...options, ...o }));
    await clock.advance(10_000);
    expect(await outcome).toMatchObject({ code, resetAtMs: window ? expect.any(Number) : undefined });
    expect(device.requests).toHaveLength(tries);
    await clock.advance(10_000);
    expect(clock.pending).toBe(0);
  });

  test("of 0: the first error is the last", async () => {
    const { gate, options } = setUp();
    const device = new ScriptedDevice([new SyscallError("UNAVAILABLE", "down")]);
    const call = gate.call("k", device, request(), { ...options, retries: 0 });
    const message = "down. It was tried once: try again later, or use another model or provider";
    await expect(call).rejects.toMatchObject({ message });
    expect(device.requests).toHaveLength(1);
  });

  test("count the cost of a broken answer", async () => {
    const { gate, clock, options } = setUp();
    const device = new ScriptedDevice([{ type: "usage", usage: USAGE }, stopped("end_turn")], text("ok"));
    const call = gate.call("k", device, request(), options);
    await clock.advance(1000);
    expect(await call).toMatchObject({
      usage: { input_tokens: 20, output_tokens: 4, cached_tokens: 8 },
      tokens_used: 24,
    });
  });
});

describe("deadlines", () => {
  for (const deaf of ["hang", "hang-deaf"] as const)
    test(`silence ends the call at the idle deadline (${deaf})`, async () => {
      const { gate, clock, options } = setUp();
      const device = new ScriptedDevice([said, deaf]);
      const call = gate.call("k", device, request(), options);
      const outcome = failure(call);
      await clock.advance(options.idleMs);
      expect(await outcome).toMatchObject({ code: "TIMEOUT" });
      expect(device.requests).toHaveLength(1);
      expect(clock.pending).toBe(0);
    });

  test("a device that never accepts the request is silent too", async () => {
    const { gate, clock, options } = setUp();
    const device: ModelDevice = { write: () => new Promise(() => {}), read: async () => "" };
    const outcome = failure(gate.call("k", device, request(), options));
    await clock.advance(options.idleMs);
    expect(await outcome).toMatchObject({
      code: "TIMEOUT",
      message: expect.stringContaining("Raise model_idle_timeout"),
    });
  });

  test("an event in time restarts the idle deadline, and the total one still ends the call", async () => {
    const { gate, clock, options } = setUp();
    const device: ModelDevice = {
      write: async () => {},
      read: () =>
        new Promise((resolve) => clock.timer(options.idleMs - 1, () => resolve(JSON.stringify(said)))),
    };
    let ended = false;
    const call = gate.call("k", device, request(), options);
    const outcome = failure(call.finally(() => (ended = true)));
    await clock.advance(options.totalMs - 1);
    expect(ended).toBe(false);
    await clock.advance(1);
    expect(await outcome).toMatchObject({
      code: "TIMEOUT",
      message: expect.stringContaining("Raise model_timeout"),
    });
  });

  test("an answer that is not streamed has the total deadline only", async () => {
    const { gate, clock, options } = setUp();
    let ended = false;
    const call = gate.call("k", new ScriptedDevice(["hang"]), { ...request(), stream: false }, options);
    const outcome = failure(call.finally(() => (ended = true)));
    await clock.advance(options.totalMs - 1);
    expect(ended).toBe(false);
    await clock.advance(1);
    expect(await outcome).toMatchObject({ code: "TIMEOUT" });
    expect(clock.pending).toBe(0);
  });

  test("the total deadline covers all attempts, and not the waits between them", async () => {
    const { gate, clock, options } = setUp(() => 0);
    const slow = (): ModelDevice["read"] => {
      let reads = 0;
      return () =>
        reads++ > 0
          ? Promise.reject(new SyscallError("UNAVAILABLE", "down", { retryAfterMs: options.totalMs }))
          : new Promise((resolve) => clock.timer(60_000, () => resolve(JSON.stringify(said))));
    };
    let attempts = 0;
    const hang = new ScriptedDevice(["hang"]);
    let read = slow();
    const device: ModelDevice = {
      write: async (data, signal) => {
        attempts++;
        read = slow();
        if (attempts === 3) await hang.write(data, signal);
      },
      read: (max, signal) => (attempts === 3 ? hang.read(max, signal) : read(max, signal)),
    };
    const outcome = failure(gate.call("k", device, request(), { ...options, idleMs: options.totalMs }));
    await clock.advance(60_000 + options.totalMs);
    expect(attempts).toBe(2);
    await clock.advance(60_000 + options.totalMs);
    expect(attempts).toBe(3);
    let ended = false;
    void outcome.then(() => (ended = true));
    await clock.advance(options.totalMs - 120_001);
    expect(ended).toBe(false);
    await clock.advance(1);
    expect(await outcome).toMatchObject({
      code: "TIMEOUT",
      message: expect.stringContaining("model_timeout"),
    });
    expect(clock.pending).toBe(0);
  });
});

describe("a caller that gives up", () => {
  test("in the middle of an answer ends with its own reason and frees its slot", async () => {
    const { gate, clock, options } = setUp();
    const killed = new AbortController();
    const call = gate.call("k", new ScriptedDevice(["hang-deaf"]), request(), {
      ...options,
      concurrency: 1,
      signal: killed.signal,
    });
    const outcome = failure(call);
    const next = gate.call("k", new ScriptedDevice(text("next")), request(), { ...options, concurrency: 1 });
    await settled();
    killed.abort(new SyscallError("CANCELLED", "killed"));
    expect(await outcome).toMatchObject({ code: "CANCELLED", message: "killed" });
    expect(await next).toMatchObject({ content: "next" });
    expect(clock.pending).toBe(0);
  });

  test("in the queue leaves the queue", async () => {
    const { gate, clock, options } = setUp();
    const one = { ...options, concurrency: 1 };
    const first = gate.call("k", new ScriptedDevice(["hang"]), request(), one);
    const firstEnds = failure(first);
    const killed = new AbortController();
    const device = new ScriptedDevice(text("never"));
    const second = gate.call("k", device, request(), { ...one, signal: killed.signal });
    const outcome = failure(second);
    await settled();
    killed.abort();
    expect(await outcome).toMatchObject({ code: "CANCELLED" });
    const third = gate.call("k", new ScriptedDevice(text("third")), request(), one);
    await clock.advance(options.idleMs);
    expect(await firstEnds).toMatchObject({ code: "TIMEOUT" });
    expect(await third).toMatchObject({ content: "third" });
    expect(device.requests).toEqual([]);
  });

  test("in the wait before a retry ends at once", async () => {
    const { gate, clock, options } = setUp();
    const killed = new AbortController();
    const device = new ScriptedDevice([new SyscallError("UNAVAILABLE", "down")]);
    const call = gate.call("k", device, request(), { ...options, signal: killed.signal });
    const outcome = failure(call);
    await clock.advance(1);
    killed.abort();
    expect(await outcome).toMatchObject({ code: "CANCELLED" });
    expect(device.requests).toHaveLength(1);
    expect(clock.pending).toBe(0);
  });

  test("before the call makes no request", async () => {
    const { gate, options } = setUp();
    const device = new ScriptedDevice(text("never"));
    const call = gate.call("k", device, request(), { ...options, signal: AbortSignal.abort() });
    await expect(call).rejects.toMatchObject({ code: "CANCELLED" });
    expect(device.requests).toEqual([]);
  });
});

describe("one key", () => {
  test("limits concurrent calls, and grants its slots first come, first served", async () => {
    const { gate, options } = setUp();
    const line = new Line();
    const calls = ["a", "b", "c", "d", "e"].map((name) =>
      gate.call("k", line.device(name), request(), { ...options, concurrency: 2 }),
    );
    await settled();
    expect(line.started).toEqual(["a", "b"]);
    line.finish("b");
    await settled();
    expect(line.started).toEqual(["a", "b", "c"]);
    line.finish("a");
    line.finish("c");
    await settled();
    expect(line.started).toEqual(["a", "b", "c", "d", "e"]);
    line.finish("d");
    line.finish("e");
    expect((await Promise.all(calls)).map((answer) => answer.content)).toEqual(["a", "b", "c", "d", "e"]);
  });

  test("does not delay another key", async () => {
    const { gate, options } = setUp();
    const line = new Line();
    const slow = gate.call("k", line.device("slow"), request(), { ...options, concurrency: 1 });
    const quick = await gate.call("other", new ScriptedDevice(text("quick")), request(), {
      ...options,
      concurrency: 1,
    });
    expect(quick.content).toBe("quick");
    line.finish("slow");
    await slow;
  });

  test("reserves a retrying call's slot before later calls, which may run while it waits", async () => {
    const { gate, clock, options } = setUp(() => 0);
    const one = { ...options, concurrency: 1 };
    const line = new Line();
    const flaky = new ScriptedDevice([new SyscallError("UNAVAILABLE", "down")], text("again"));
    const first = gate.call("k", flaky, request(), one);
    const second = gate.call("k", line.device("second"), request(), one);
    const third = gate.call("k", line.device("third"), request(), one);
    await clock.advance(250);
    expect(line.started).toEqual(["second"]);
    line.finish("second");
    expect(await first).toMatchObject({ content: "again" });
    await settled();
    expect(line.started).toEqual(["second", "third"]);
    line.finish("third");
    await Promise.all([second, third]);
  });

  test("counts a call that waits for its retry among its own, also when it is the only one", async () => {
    const { gate, clock, options } = setUp(() => 0);
    const one = { ...options, concurrency: 1 };
    const line = new Line();
    const flaky = line.device("again");
    let failures = 1;
    const device: ModelDevice = {
      write: (data, signal) =>
        failures-- > 0 ? Promise.reject(new SyscallError("UNAVAILABLE", "down")) : flaky.write(data, signal),
      read: flaky.read,
    };
    const first = gate.call("k", device, request(), one);
    await settled();
    const second = gate.call("k", line.device("second"), request(), one);
    await settled();
    line.finish("second");
    await second;
    const third = gate.call("k", line.device("third"), request(), one);
    await clock.advance(250);
    expect(line.started).toEqual(["second", "third"]);
    line.finish("third");
    await third;
    await settled();
    expect(line.started).toEqual(["second", "third", "again"]);
    line.finish("again");
    await first;
  });

  test("that was asked to back off backs off for all its callers", async () => {
    const { gate, clock, options } = setUp(() => 0);
    const limited = new SyscallError("EXHAUSTED", "slow down", { retryAfterMs: 5000 });
    const first = gate.call("k", new ScriptedDevice([limited], text("first")), request(), options);
    await settled();
    const device = new ScriptedDevice(text("second"));
    const second = gate.call("k", device, request(), options);
    const impatient = gate.call("k", device, request(), { ...options, totalMs: 4000 });
    await expect(impatient).rejects.toMatchObject({ code: "EXHAUSTED", retryAfterMs: 5000 });
    await clock.advance(4999);
    expect(device.requests).toEqual([]);
    await clock.advance(1);
    expect(await first).toMatchObject({ content: "first" });
    expect(await second).toMatchObject({ content: "second" });
    expect(clock.pending).toBe(0);
  });
});

function setUp(random: () => number = () => 0.5) {
  const clock = new FakeClock();
  const events: LLMEvent[] = [];
  const retries: Retry[] = [];
  const options = {
    totalMs: 600_000,
    idleMs: 120_000,
    onEvent: (event: LLMEvent) => void events.push(event),
    onRetry: (info: Retry) => void retries.push(info),
  };
  return { gate: new TestGate({ clock, random }), clock, options, events, retries };
}

function request(): ModelRequest {
  return {
    intent: "do it",
    system_prompt: "You are an agent",
    model: "m",
    messages: [{ role: "user", content: "do it" }],
    stream: true,
  };
}

/** Devices that answer their own name when the test says so, and remember the order they were asked in. */
class Line {
  readonly started: string[] = [];
  readonly #gates = new Map<string, () => void>();

  device(name: string): ModelDevice {
    const answer = new ScriptedDevice(text(name));
    return {
      write: async (data, signal) => {
        this.started.push(name);
        await new Promise<void>((resolve) => this.#gates.set(name, resolve));
        await answer.write(data, signal);
      },
      read: (max, signal) => answer.read(max, signal),
    };
  }

  finish(name: string): void {
    this.#gates.get(name)?.();
  }
}

type Counts = [input: number, output: number, cached: number];

function usageOf([input_tokens, output_tokens, cached_tokens]: Counts): Usage {
  return { input_tokens, output_tokens, cached_tokens };
}
