import { describe, expect, test } from "bun:test";
import type { ModelDevice } from "../../../src/kernel/llm/model-device.ts";
import { type LLMEvent, type RateLimits, SyscallError } from "../../../src/plugin/index.ts";
import { FakeClock, passing, settled } from "../../support/fake-clock.ts";
import { seeded } from "../../support/seeded.ts";
import { type Attempt, ScriptedDevice, text } from "./scripted-device.ts";
import { type CallTerms, TestGate } from "./test-gate.ts";

const request = {
  intent: "",
  system_prompt: "",
  model: "m",
  messages: [{ role: "user" as const, content: "go" }],
  stream: true,
};

function setUp(clock = new FakeClock(), random: () => number = () => 0) {
  const gate = new TestGate({ clock, random });
  const options = { patienceMs: 120_000 };
  const call = (device: ModelDevice, more: CallTerms = {}) =>
    gate.call("acme:k", device, request, { ...options, ...more });
  const status = () => {
    const [one] = gate.status();
    if (!one) throw new Error("No key was used yet.");
    return one;
  };
  return { gate, clock, options, call, status };
}

const failure = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => undefined,
    (error) => error,
  );

const saying = (limits: RateLimits): Attempt => [{ type: "limits", limits }, ...text("ok")];

/** Takes `at_once` requests at a time for a random while each, and refuses what is above. */
class BusyServer {
  readonly device: ModelDevice;
  requests = 0;
  refused = 0;
  running = 0;
  most = 0;

  constructor(o: { clock: FakeClock; random: () => number; atOnce: number; retryAfterMs?: number }) {
    const { clock, random, atOnce, retryAfterMs } = o;
    let left: LLMEvent[] = [];
    this.device = {
      write: async () => {
        this.requests++;
        if (this.running >= atOnce) {
          this.refused++;
          throw new SyscallError("EXHAUSTED", "too many at once", { retryAfterMs });
        }
        this.most = Math.max(this.most, ++this.running);
        await new Promise<void>((resolve) => clock.timer(50 + random() * 3000, resolve));
        this.running--;
        left = text("ok").filter((event): event is LLMEvent => typeof event === "object" && "type" in event);
      },
      read: async () => {
        const event = left.shift();
        return event === undefined ? "" : JSON.stringify(event);
      },
    };
  }
}

describe("a server that takes 20 at a time", () => {
  const grid = [undefined, 1000].flatMap((retryAfterMs) =>
    [1, 2, 3, 4].map((seed) => ({ retryAfterMs, seed })),
  );
  test.each(grid)(
    "gets 200 runs done with few refusals, and none of them waits for another tree's (%o)",
    async (o) => {
      const random = seeded(o.seed);
      const { clock, call, status } = setUp(new FakeClock(), random);
      const STEPS = 3;
      const TREES = 20;
      const server = new BusyServer({ clock, random, atOnce: 20, retryAfterMs: o.retryAfterMs });
      const ends = new Map<string, number>();
      const run = async (index: number) => {
        // One tree has half of all runs.
        const tree = index < 100 ? "big" : `t${index % TREES}`;
        for (let step = 0; step < STEPS; step++) await call(server.device, { tree });
        ends.set(tree, clock.monotonic());
      };
      await passing(clock, Promise.all(Array.from({ length: 200 }, (_, index) => run(index))));
      expect(ends.size).toBe(TREES + 1);
      expect(server.refused / server.requests).toBeLessThanOrEqual(0.05);
      expect(server.most).toBe(20);
      expect(status()).toMatchObject({
        running: 0,
        waiting: 0,
        calls: 0,
        requests: server.requests,
        refused: server.refused,
      });
      // The big tree has twenty times the work of each other one: it is the last to end, by far.
      const others = [...ends].filter(([tree]) => tree !== "big").map(([, at]) => at);
      expect(ends.get("big")).toBeGreaterThan(Math.max(...others));
      expect(clock.pending).toBe(0);
    },
  );

  test("a single run is not starved by a tree of 100", async () => {
    const { clock, call } = setUp();
    const server = new BusyServer({ clock, random: () => 0.5, atOnce: 4 });
    let big = 0;
    const many = Array.from({ length: 100 }, async () => {
      for (let step = 0; step < 5; step++) {
        await call(server.device, { tree: "big", concurrency: 4 });
        big++;
      }
    });
    await clock.advance(5000);
    const before = big;
    const alone = (async () => {
      for (let step = 0; step < 5; step++) await call(server.device, { tree: "alone", concurrency: 4 });
    })();
    await passing(clock, alone);
    // Of each step: one place that comes free, and the time of an answer.
    expect(big - before).toBeLessThanOrEqual(5 * 2 * 4);
    await passing(clock, Promise.all(many));
  });

  test("that refuses every request ends every call, and not at once", async () => {
    const { clock, call } = setUp(new FakeClock(), seeded(1));
    const server = new BusyServer({ clock, random: () => 0, atOnce: 0 });
    const ends = Array.from({ length: 50 }, () => failure(call(server.device)));
    const errors = await passing(clock, Promise.all(ends));
    expect(errors.every((error) => error instanceof SyscallError && error.code === "EXHAUSTED")).toBe(true);
    expect(server.requests).toBeLessThanOrEqual(50 * 5);
    expect(clock.pending).toBe(0);
  });
});

describe("requests per minute", () => {
  test("are within the limit for all callers together, and a retry counts as one", async () => {
    const { clock, call, status } = setUp();
    const times: number[] = [];
    const device = (): ModelDevice => {
      const answer = new ScriptedDevice([new SyscallError("UNAVAILABLE", "down")], text("ok"));
      return {
        write: (data, signal) => {
          times.push(clock.monotonic());
          return answer.write(data, signal);
        },
        read: (max, signal) => answer.read(max, signal),
      };
    };
    const calls = Array.from({ length: 8 }, () => call(device(), { requestsPerMinute: 5 }));
    await clock.advance(59_999);
    expect(times).toHaveLength(5);
    expect(status()).toMatchObject({
      requests_last_minute: 5,
      requests_per_minute: 5,
      running: 0,
      holds: [],
    });
    await passing(clock, Promise.all(calls));
    expect(times).toHaveLength(16);
    for (const time of times) {
      expect(times.filter((other) => other > time - 60_000 && other <= time).length).toBeLessThanOrEqual(5);
    }
    expect(clock.pending).toBe(0);
  });
});

describe("rate limit headers", () => {
  test("nothing left: no call is made before the limit resets, and none is refused", async () => {
    const { clock, call, status } = setUp();
    await call(new ScriptedDevice(saying({ requests: { limit: 50, remaining: 0, reset_ms: 8000 } })));
    const device = new ScriptedDevice(text("next"));
    const next = call(device);
    await clock.advance(7999);
    expect(device.requests).toEqual([]);
    expect(status()).toMatchObject({
      waiting: 1,
      holds: [
        {
          model: "m",
          until_ms: clock.now() + 1,
          left_ms: 1,
          why: expect.stringContaining("all 50 requests"),
        },
      ],
      reported: { m: { requests: { limit: 50, remaining: 0, reset_ms: 8000 } } },
    });
    await clock.advance(1);
    expect(await next).toMatchObject({ content: "next" });
    expect(clock.pending).toBe(0);
  });

  test("some left: only that many calls are made, and then none", async () => {
    const { clock, call } = setUp();
    await call(new ScriptedDevice(saying({ requests: { limit: 50, remaining: 3, reset_ms: 8000 } })));
    const devices = Array.from({ length: 5 }, () => new ScriptedDevice(text("ok")));
    const calls = devices.map((device) => call(device));
    await settled();
    expect(devices.map(({ requests }) => requests.length)).toEqual([1, 1, 1, 0, 0]);
    await passing(clock, Promise.all(calls));
  });

  test("the latest header counts: more is left by now", async () => {
    const { clock, call } = setUp();
    const none = { requests: { limit: 50, remaining: 0, reset_ms: 60_000 } };
    const some = { requests: { limit: 50, remaining: 9, reset_ms: 1 } };
    let answer = (): void => {};
    const slow = new ScriptedDevice(saying(some));
    const late = call({
      write: async (data, signal) => {
        await new Promise<void>((resolve) => {
          answer = resolve;
        });
        await slow.write(data, signal);
      },
      read: (max, signal) => slow.read(max, signal),
    });
    await call(new ScriptedDevice(saying(none)));
    const device = new ScriptedDevice(text("ok"));
    const waits = call(device);
    await settled();
    expect(device.requests).toEqual([]);
    answer();
    await Promise.all([late, waits]);
    expect(clock.pending).toBe(0);
  });

  test("a wait beyond its patience fails at once, with its end: the run suspends itself", async () => {
    const { clock, call } = setUp();
    const hour = 3_600_000;
    await call(new ScriptedDevice(saying({ tokens: { limit: 100, remaining: 0, reset_ms: hour } })));
    expect(await failure(call(new ScriptedDevice(text("never"))))).toMatchObject({
      code: "EXHAUSTED",
      resetAtMs: clock.now() + hour,
      retryable: undefined,
    });
    expect(clock.pending).toBe(0);
  });

  test("delay calls of the same model, and no other model of the key", async () => {
    const { clock, gate, options, call, status } = setUp();
    const limited = new SyscallError("EXHAUSTED", "slow down", { retryAfterMs: 9000 });
    await call(new ScriptedDevice(saying({ requests: { limit: 50, remaining: 0, reset_ms: 8000 } })));
    const ask = (model: string, ...attempts: Attempt[]) => {
      const device = new ScriptedDevice(...attempts);
      return { device, answer: gate.call("acme:k", device, { ...request, model }, options) };
    };
    const [same, other] = [ask("m", text("same")), ask("other", [limited], text("again"))];
    await settled();
    expect([same.device.requests.length, other.device.requests.length]).toEqual([0, 1]);
    const third = ask("third", text("third"));
    expect(await third.answer).toMatchObject({ content: "third" });
    expect(status().holds.map(({ model, left_ms }) => [model, left_ms])).toEqual([
      ["other", 9000],
      ["m", 8000],
    ]);
    await clock.advance(8000);
    expect(await same.answer).toMatchObject({ content: "same" });
    expect(other.device.requests).toHaveLength(1);
    await passing(clock, other.answer);
    expect(clock.pending).toBe(0);
  });

  test("few tokens left: fewer concurrent calls, at least one", async () => {
    const { call, status } = setUp();
    await call(new ScriptedDevice(text("ok")));
    for (const [remaining, atOnce] of [
      [1000, 16],
      [200, 16],
      [100, 8],
      [50, 4],
      [1, 1],
    ] as const) {
      await call(new ScriptedDevice(saying({ tokens: { limit: 1000, remaining, reset_ms: 5000 } })));
      expect(status().at_once).toBe(atOnce);
    }
  });

  test("a limit that resets after ages delays for a year at most: a later date can't be shown", async () => {
    const { clock, call } = setUp();
    await call(new ScriptedDevice(saying({ requests: { remaining: 0, reset_ms: 1e300 } })));
    const year = 365 * 24 * 3_600_000;
    const second = failure(call(new ScriptedDevice(text("never"))));
    expect(await second).toMatchObject({ code: "EXHAUSTED", resetAtMs: clock.now() + year });
  });

  test.each([
    ["without an end", { requests: { limit: 50, remaining: 0 } }],
    ["whose end is over", { requests: { limit: 50, remaining: 0, reset_ms: 0 } }],
    [
      "in the past",
      { requests: { limit: 0, remaining: -5, reset_ms: -1000 }, tokens: { remaining: 0, limit: 0 } },
    ],
    ["of nothing", {}],
  ] as [string, RateLimits][])("a limit %s delays no call", async (_, limits) => {
    const { clock, call } = setUp();
    await call(new ScriptedDevice(saying(limits)));
    await call(new ScriptedDevice(text("ok")));
    expect(clock.pending).toBe(0);
  });
});

describe("a clock that jumps", () => {
  const hour = 3_600_000;
  const limited = () => new SyscallError("EXHAUSTED", "wait", { retryAfterMs: 60_000 });

  test("forward, or a machine that slept: the wait is over within a minute", async () => {
    const { clock, call } = setUp();
    const first = failure(call(new ScriptedDevice([limited()], text("first"))));
    await settled();
    const device = new ScriptedDevice(text("second"));
    const second = call(device, { patienceMs: 2 * hour });
    await clock.advance(1000);
    expect(device.requests).toEqual([]);
    clock.set(clock.now() + hour);
    await clock.advance(59_000);
    expect(await second).toMatchObject({ content: "second" });
    await passing(clock, first);
    expect(clock.pending).toBe(0);
  });

  test("back: the wait is as long as before", async () => {
    const { clock, call } = setUp();
    const first = failure(call(new ScriptedDevice([limited()], text("first"))));
    await settled();
    clock.set(clock.now() - 24 * hour);
    const device = new ScriptedDevice(text("second"));
    const second = call(device);
    await clock.advance(59_999);
    expect(device.requests).toEqual([]);
    await clock.advance(1);
    expect(await second).toMatchObject({ content: "second" });
    await passing(clock, first);
    expect(clock.pending).toBe(0);
  });

  test("past the end of a window that is a time of day: the retries do not come at once", async () => {
    const { clock, call } = setUp();
    const over = () => new SyscallError("EXHAUSTED", "quota", { resetAtMs: clock.now() - hour });
    const device = new ScriptedDevice([over()], [over()], text("third"));
    const answer = call(device);
    await settled();
    expect(device.requests).toHaveLength(1);
    await clock.advance(249);
    expect(device.requests).toHaveLength(1);
    await clock.advance(1);
    expect(device.requests).toHaveLength(2);
    await clock.advance(500);
    expect(await answer).toMatchObject({ content: "third" });
    expect(clock.pending).toBe(0);
  });

  test.each(Array.from({ length: 20 }, (_, seed) => seed))(
    "again and again: every call ends, and no timer spins (seed %i)",
    async (seed) => {
      const random = seeded(seed);
      const { clock, call } = setUp(new FakeClock(), random);
      const attempts = (): Attempt[] => [
        [
          new SyscallError(
            "EXHAUSTED",
            "wait",
            random() < 0.5
              ? { retryAfterMs: random() * 100_000 }
              : { resetAtMs: clock.now() + random() * 100_000 },
          ),
        ],
        saying({ requests: { limit: 9, remaining: Math.floor(random() * 3), reset_ms: random() * 100_000 } }),
      ];
      const ends = Array.from({ length: 10 }, () =>
        failure(call(new ScriptedDevice(...attempts()), { requestsPerMinute: 20 })),
      );
      let over = false;
      const all = Promise.all(ends).then(() => {
        over = true;
      });
      for (let i = 0; i < 200 && !over; i++) {
        clock.set(clock.now() + (random() - 0.5) * 4 * hour);
        await clock.advance(random() * 30_000);
      }
      await all;
      expect(clock.pending).toBe(0);
    },
  );
});

describe("the learned limits of a key", () => {
  test("is remembered between calls, and forgotten after a long time without calls", async () => {
    const { gate, clock, call, options } = setUp();
    await call(new ScriptedDevice(text("ok")));
    await clock.advance(599_999);
    await gate.call("other:k", new ScriptedDevice(text("ok")), request, { ...options, provider: "other" });
    expect(gate.status().map(({ provider }) => provider)).toEqual(["acme", "other"]);
    await clock.advance(1);
    await gate.call("third:k", new ScriptedDevice(text("ok")), request, { ...options, provider: "third" });
    expect(gate.status().map(({ provider }) => provider)).toEqual(["other", "third"]);
    expect(JSON.stringify(gate.status())).not.toContain(":k");
  });
});
