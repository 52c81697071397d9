import { describe, expect, setDefaultTimeout, test } from "bun:test";
import type { ProcInfo, SpawnOpts } from "../../../src/kernel/types.ts";
import { type Code, SyscallError, type SyscallErrorDetail } from "../../../src/plugin/index.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { calls, KernelHarness, type Model, says } from "../../support/kernel.ts";
import { until } from "../../support/until.ts";

setDefaultTimeout(60_000);

const MINUTE = 60_000;
const RETRIES = { model_retries: null, model_retry_time: 5 * MINUTE } as const;
const MINUTES_10 = 600_000;
const DETACHED = { detached: true } as const;

/** A model that fails until `up`. */
class Server {
  up = false;
  asked = 0;
  readonly #code: Code;
  readonly #detail: SyscallErrorDetail;

  constructor(code: Code = "UNAVAILABLE", detail: SyscallErrorDetail = {}) {
    this.#code = code;
    this.#detail = detail;
  }

  readonly answer: Model = () => {
    this.asked++;
    if (this.up) return says("done");
    throw new SyscallError(this.#code, "the server is down", this.#detail);
  };
}

/** Advances the clock until the run has ended. */
async function ended(h: KernelHarness, clock: FakeClock, pid: number): Promise<ProcInfo> {
  const following = h.follow(pid).then(({ info }) => info);
  let info: ProcInfo | undefined;
  void following.then((found) => (info = found));
  await until(async () => {
    // Only the time limit of the run is further away: what happens now needs the disk, and no time.
    const isNear = (clock.waits[0] ?? Infinity) < MINUTES_10;
    if (!info && isNear) await clock.advance(1000);
    return info !== undefined;
  }, "its end");
  return following;
}

async function run(h: KernelHarness, clock: FakeClock, more: Partial<SpawnOpts>): Promise<ProcInfo> {
  return ended(h, clock, await h.spawn("go", more));
}

/** How long it is suspended. */
function waitOf({ suspended, ended_at_ms }: ProcInfo): number {
  if (suspended?.wake.on !== "at" || ended_at_ms === null) throw new Error("it waits for no time");
  return suspended.wake.at_ms - ended_at_ms;
}

describe("a run whose model is down for longer than its calls are retried", () => {
  test("is suspended where no client follows it, and finishes when it resumes", async () => {
    const clock = new FakeClock();
    const server = new Server();
    await using h = new KernelHarness({ clock, model: server.answer, limits: RETRIES, wakes: true });
    const info = await run(h, clock, DETACHED);
    expect(info).toMatchObject({
      exit_code: 75,
      exit_reason: "suspended",
      error: null,
      suspended: { cause: "model", by_itself: true, wake: { on: "at" } },
    });
    expect(info.suspended?.reason).toMatch(/^the server is down\. It was tried \d+ times within 5m/);
    expect(server.asked).toBeGreaterThan(10);
    server.up = true;
    const { pid } = await h.kernel.lifecycle.resume(info.uuid, null, h.opts(DETACHED));
    expect(await ended(h, clock, pid)).toMatchObject({ exit_code: 0, result: "done", steps: 1 });
  });

  test("waits twice as long each time in a row, at most an hour; an answer resets the wait", async () => {
    const clock = new FakeClock();
    const server = new Server();
    const model: Model = (request, signal) => {
      const { up } = server;
      const answer = server.answer(request, signal);
      server.up = false;
      return up && request.messages.length < 3 ? calls(["Plan", { plan: "go on" }]) : answer;
    };
    await using h = new KernelHarness({ clock, model, limits: RETRIES, wakes: true });
    const open = { ...DETACHED, timeout_ms: null };
    let info = await run(h, clock, open);
    const waits = [waitOf(info)];
    const resume = async (): Promise<void> => {
      const { pid } = await h.kernel.lifecycle.resume(info.uuid, null, h.opts(open));
      info = await ended(h, clock, pid);
      waits.push(waitOf(info));
    };
    for (let n = 0; n < 5; n++) await resume();
    // It answers once, and is down again.
    server.up = true;
    await resume();
    const minutes = waits.map((ms) => Math.floor(ms / MINUTE));
    expect(minutes).toEqual([5, 11, 23, 48, 63, 63, 5]);
  });

  test("its time limit counts the retries, so it ends", async () => {
    const clock = new FakeClock();
    const server = new Server();
    await using h = new KernelHarness({ clock, model: server.answer, limits: RETRIES, wakes: true });
    let info = await run(h, clock, { ...DETACHED, timeout_ms: 12 * MINUTE });
    let rounds = 1;
    for (; info.exit_reason === "suspended"; rounds++) {
      const { pid } = await h.kernel.lifecycle.resume(info.uuid, null, h.opts(DETACHED));
      info = await ended(h, clock, pid);
    }
    expect({ rounds, reason: info.exit_reason }).toEqual({ rounds: 3, reason: "timeout" });
  });

  test.each([
    ["a client follows it", {}, true, {}],
    ["nothing would wake it", DETACHED, false, {}],
    ["its calls are not to be retried", DETACHED, true, { model_retry_time: 0 }],
  ] as const)("ends with llm_error where %s", async (_, more, wakes, limits) => {
    const clock = new FakeClock();
    const server = new Server();
    await using h = new KernelHarness({
      clock,
      model: server.answer,
      wakes,
      limits: { ...RETRIES, ...limits },
    });
    expect(await run(h, clock, more)).toMatchObject({
      exit_code: 1,
      exit_reason: "llm_error",
      error: { code: "UNAVAILABLE" },
      suspended: null,
    });
  });

  test.each([
    ["PERMISSION", {}],
    ["NOT_FOUND", {}],
    ["INVALID", {}],
    ["EXHAUSTED", { retryable: false }],
  ] as const)("ends with llm_error at once for %s %o, which a retry cannot fix", async (code, detail) => {
    const clock = new FakeClock();
    const server = new Server(code, detail);
    await using h = new KernelHarness({ clock, model: server.answer, wakes: true, limits: RETRIES });
    expect(await run(h, clock, DETACHED)).toMatchObject({ exit_reason: "llm_error", error: { code } });
    expect(server.asked).toBe(1);
  });

  test("a parent that waits for it is suspended with it", async () => {
    const clock = new FakeClock();
    const server = new Server();
    const model: Model = (request, signal) =>
      request.intent === "child" ? server.answer(request, signal) : calls(["Agent", { intent: "child" }]);
    await using h = new KernelHarness({
      clock,
      model,
      wakes: true,
      limits: RETRIES,
      planChild: async () => DETACHED,
    });
    const pid = await h.spawn("go", DETACHED);
    await until(() => server.asked > 0, "the child's first call");
    const info = await ended(h, clock, pid);
    const [child] = info.children;
    expect(info).toMatchObject({ exit_code: 75, suspended: { wake: { on: "child", uuid: child?.uuid } } });
    expect(await h.runs.info(child?.uuid ?? "")).toMatchObject({ suspended: { cause: "model" } });
  });
});

test("each retry names its reason, the next wait, and the time in which retries are made", async () => {
  const clock = new FakeClock();
  const server = new Server("EXHAUSTED", { retryAfterMs: 40_000 });
  await using h = new KernelHarness({ clock, model: server.answer, limits: RETRIES });
  const pid = await h.spawn("go");
  await ended(h, clock, pid);
  const { events } = await h.follow(pid);
  const retries = events.filter((event) => event.event === "retry");
  expect(retries.length).toBeGreaterThan(5);
  expect(retries[0]).toMatchObject({ attempt: 1, left_ms: 5 * MINUTE, message: "the server is down" });
  for (const { delay_ms } of retries) expect(delay_ms).toBeGreaterThanOrEqual(40_000);
});

test("a model with a fallback is retried for seconds only", async () => {
  const clock = new FakeClock();
  const server = new Server();
  const began = clock.now();
  let switchedAt = 0;
  const model: Model = (request, signal) => {
    if (request.model === "m") return server.answer(request, signal);
    switchedAt = clock.now();
    return says("the other's");
  };
  await using h = new KernelHarness({ clock, model, limits: RETRIES });
  const { provider } = h.opts();
  h.leases--;
  const fallbacks = [{ ...provider, model: "other" }];
  expect(await run(h, clock, { provider: { ...provider, fallbacks } })).toMatchObject({
    result: "the other's",
    switches: [{ to: { model: "other" } }],
  });
  expect(switchedAt - began).toBeLessThanOrEqual(12_000);
  expect(server.asked).toBeGreaterThan(3);
});

test("a paused process is not retried, and its pause takes no retry time", async () => {
  const clock = new FakeClock();
  const server = new Server();
  await using h = new KernelHarness({ clock, model: server.answer, limits: RETRIES });
  const pid = await h.spawn("go");
  await until(() => server.asked === 1, "its first call");
  h.kernel.signals.signal(pid, 4);
  await clock.advance(20 * MINUTE);
  const { asked } = server;
  h.kernel.signals.signal(pid, 5);
  server.up = true;
  expect(asked).toBeLessThanOrEqual(2);
  expect(await ended(h, clock, pid)).toMatchObject({ exit_code: 0, result: "done" });
});
