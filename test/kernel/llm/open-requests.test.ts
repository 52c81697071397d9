import { describe, expect, test } from "bun:test";
import { OpenRequests } from "../../../src/kernel/llm/request-limits.ts";
import type { LLMAnswer } from "../../../src/plugin/index.ts";
import { modelRequestLimit } from "../../../src/server/daemon/request-limit.ts";
import { FakeClock, settled } from "../../support/fake-clock.ts";
import { seeded } from "../../support/seeded.ts";
import { ScriptedDevice, text } from "./scripted-device.ts";
import { TestGate } from "./test-gate.ts";

const IDLE_MS = 5_000;

/** A gate with a limit, and requests that end when the test says so. */
class Bench {
  readonly clock = new FakeClock();
  readonly gate: TestGate;
  /** Open requests, the oldest first. */
  readonly open: { key: string; finish(): void }[] = [];
  readonly #stop = new AbortController();

  constructor(openRequests: number) {
    this.gate = new TestGate({ clock: this.clock, openRequests });
  }

  ask(key: string, signal: AbortSignal = this.#stop.signal): Promise<LLMAnswer> {
    const device = new ScriptedDevice(text(key));
    const request = { intent: "x", system_prompt: "", model: "m", messages: [], stream: true };
    return this.gate.call(
      key,
      {
        write: async (data, aborted) => {
          const { promise, resolve } = Promise.withResolvers<void>();
          const one = { key, finish: resolve };
          this.open.push(one);
          aborted.addEventListener("abort", () => this.open.splice(this.open.indexOf(one), 1), {
            once: true,
          });
          await promise;
          await device.write(data, aborted);
        },
        read: (max, aborted) => device.read(max, aborted),
      },
      request,
      {
        signal,
        totalMs: 60_000,
        idleMs: IDLE_MS,
        retries: 0,
        concurrency: 1_000,
      },
    );
  }

  count(key: string): number {
    return this.open.filter((one) => one.key === key).length;
  }

  async finish(key: string): Promise<void> {
    const at = this.open.findIndex((one) => one.key === key);
    if (at >= 0) this.open.splice(at, 1)[0]?.finish();
    await settled();
  }
}

describe("open requests of all keys together", () => {
  test("are at most the limit, and one key may use three quarters of it", async () => {
    const bench = new Bench(16);
    const calls = Array.from({ length: 40 }, () => bench.ask("a"));
    await settled();
    expect(bench.count("a")).toBe(12);
    for (let left = 40; left > 0; left--) await bench.finish("a");
    expect(await Promise.all(calls)).toHaveLength(40);
  });

  test("a key starts at once while another key has used its full share", async () => {
    const bench = new Bench(16);
    const flood = Array.from({ length: 100 }, () => bench.ask("a"));
    await settled();
    const other = [bench.ask("b"), bench.ask("b")];
    await settled();
    expect(bench.count("b")).toBe(2);
    await bench.finish("b");
    await bench.finish("b");
    expect(await Promise.all(other)).toHaveLength(2);
    while (bench.open.length > 0) await bench.finish("a");
    await Promise.all(flood);
  });

  test("two floods take turns", async () => {
    const bench = new Bench(8);
    const calls = [
      ...Array.from({ length: 30 }, () => bench.ask("a")),
      ...Array.from({ length: 30 }, () => bench.ask("b")),
    ];
    await settled();
    const ended = { a: 0, b: 0 };
    while (bench.open.length > 0) {
      const key = bench.open[0]?.key === "b" ? "b" : "a";
      ended[key]++;
      await bench.finish(key);
      if (ended.a + ended.b === 30) expect(Math.min(ended.a, ended.b)).toBeGreaterThanOrEqual(8);
    }
    await Promise.all(calls);
    expect(ended).toEqual({ a: 30, b: 30 });
  });

  test("no deadline runs before a request is made", async () => {
    const bench = new Bench(1);
    const first = bench.ask("a");
    const second = bench.ask("b");
    await settled();
    expect([bench.count("a"), bench.count("b")]).toEqual([1, 0]);
    await bench.clock.advance(IDLE_MS - 1);
    await bench.finish("a");
    expect(bench.count("b")).toBe(1);
    await bench.clock.advance(IDLE_MS - 1);
    await bench.finish("b");
    expect((await Promise.all([first, second])).map(({ content }) => content)).toEqual(["a", "b"]);
  });

  test("a caller that gives up in the queue leaves it, and has no slot", async () => {
    const bench = new Bench(1);
    const first = bench.ask("a");
    const gone = new AbortController();
    const second = bench.ask("b", gone.signal).catch(() => "gave up");
    const third = bench.ask("c");
    await settled();
    gone.abort();
    expect(await second).toBe("gave up");
    await bench.finish("a");
    await bench.finish("c");
    expect(await Promise.all([first, third])).toHaveLength(2);
  });

  test.each([1, 2, 3, 4, 5, 6, 7, 8])(
    "a storm of limit %i: stays within the limit, and no request is forgotten",
    async (max) => {
      const random = seeded(max);
      const bench = new Bench(max);
      const calls: Promise<unknown>[] = [];
      for (let turn = 0; turn < 200; turn++) {
        const giveUp = new AbortController();
        calls.push(bench.ask(`key ${Math.floor(random() * 5)}`, giveUp.signal).catch(() => "gave up"));
        await settled();
        if (random() < 0.1) giveUp.abort();
        expect(bench.open.length).toBeLessThanOrEqual(max);
        const at = bench.open[Math.floor(random() * bench.open.length)];
        if (at && random() < 0.6) await bench.finish(at.key);
      }
      for (let rounds = 0; rounds < 400 && bench.open[0]; rounds++) await bench.finish(bench.open[0].key);
      expect(await Promise.all(calls)).toHaveLength(200);
      expect(bench.gate.calls).toBe(0);
    },
  );
});

test("a queue that no longer wants a request does not block the requests behind it", () => {
  const open = new OpenRequests(1);
  const nothing = { admit: () => undefined };
  let asked = 0;
  const wants = { admit: () => asked++ };
  open.take(nothing);
  expect([open.hasRoom({ admit: () => undefined }), open.hasRoom(wants)]).toEqual([false, false]);
  open.release(nothing);
  expect(asked).toBe(1);
});

test("the limit is below the runtime's, and leaves descriptors for other uses", () => {
  const variable = (value: string) => ({ BUN_CONFIG_MAX_HTTP_REQUESTS: value });
  expect(modelRequestLimit({}, 20_000)).toBe(192);
  expect(modelRequestLimit(variable("5120"), 20_000)).toBe(4096);
  expect(modelRequestLimit(variable("5120"), 1024)).toBe(256);
  expect(modelRequestLimit(variable("16"), 20_000)).toBe(12);
  expect(modelRequestLimit(variable("1"), 20_000)).toBe(1);
  for (const wrong of ["0", "-1", "many", "70000", ""])
    expect(modelRequestLimit(variable(wrong), 20_000)).toBe(192);
});
