import { describe, expect, test } from "bun:test";
import type { Thread } from "../../../src/kernel/concurrency-manager.ts";
import { SIGKILL, SIGPAUSE, SIGRESUME, SIGTERM } from "../../../src/lib/signals.ts";
import { SyscallError } from "../../../src/plugin/index.ts";
import { FakeClock, settled } from "../../support/fake-clock.ts";
import { calls, KernelHarness, says, script, silent, toolDevice } from "../../support/kernel.ts";
import { until } from "../../support/until.ts";

/** Resolves when the thread is cancelled. */
function cancelled({ signal }: Thread): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

describe("a thread", () => {
  test("gives its result to several joiners, before and after its end", async () => {
    await using h = new KernelHarness({ model: silent });
    const { concurrency } = h.kernel;
    const pid = await h.spawn("go");
    const work = Promise.withResolvers<string>();
    const tid = await concurrency.spawnThread(pid, "sum up", () => work.promise);
    const early = [concurrency.joinThread(pid, tid), concurrency.joinThread(pid, tid)];
    work.resolve("42");
    expect(await Promise.all([...early, concurrency.joinThread(pid, tid)])).toEqual(["42", "42", "42"]);
  });

  test("throws its error at each join", async () => {
    await using h = new KernelHarness({ model: silent });
    const { concurrency } = h.kernel;
    const pid = await h.spawn("go");
    const own = await concurrency.spawnThread(pid, "fails", () => {
      throw new SyscallError("UNAVAILABLE", "not today");
    });
    const foreign = await concurrency.spawnThread(pid, "breaks", () => Promise.reject(new Error("oops")));
    for (const _again of [1, 2]) {
      await expect(concurrency.joinThread(pid, own)).rejects.toMatchObject({ code: "UNAVAILABLE", pid });
      await expect(concurrency.joinThread(pid, foreign)).rejects.toMatchObject({
        code: "INTERNAL",
        message: "JoinThread: oops",
      });
    }
  });

  test("has an id that only grows; an id that no thread has is NOT_FOUND", async () => {
    await using h = new KernelHarness({ model: silent });
    const { concurrency } = h.kernel;
    const pid = await h.spawn("go");
    expect(await concurrency.spawnThread(pid, "a", () => 1)).toBe(1);
    await concurrency.joinThread(pid, 1);
    expect(await concurrency.spawnThread(pid, "b", () => 1)).toBe(2);
    for (const tid of [0, 3, -1, 1.5]) {
      await expect(concurrency.joinThread(pid, tid)).rejects.toMatchObject({
        code: "NOT_FOUND",
        syscall: "JoinThread",
      });
    }
    const other = await h.spawn("other");
    await expect(concurrency.joinThread(other, 1)).rejects.toMatchObject({ code: "NOT_FOUND" });
  });

  test("counts towards a limit: of live ones, and of ended ones", async () => {
    await using h = new KernelHarness({ model: silent });
    const { concurrency } = h.kernel;
    const pid = await h.spawn("go");
    const work = Promise.withResolvers<void>();
    for (let i = 0; i < 256; i++) await concurrency.spawnThread(pid, "waits", () => work.promise);
    const one = (): Promise<number> => concurrency.spawnThread(pid, "one more", () => "done");
    await expect(one()).rejects.toMatchObject({ code: "EXHAUSTED" });
    work.resolve();
    await concurrency.joinThread(pid, 1);
    for (let tid = 257; tid <= 1024; tid++) await one();
    // Only the first was joined: one place is free, and then none.
    expect(await one()).toBe(1025);
    await expect(concurrency.joinThread(pid, 1)).rejects.toThrow("is forgotten");
    await expect(one()).rejects.toMatchObject({ code: "EXHAUSTED" });
    expect(concurrency.threads.size).toBe(1024);
  });

  test("is waited for up to its joiner's deadline", async () => {
    const clock = new FakeClock();
    await using h = new KernelHarness({ model: silent, clock });
    const { concurrency } = h.kernel;
    const pid = await h.spawn("go", { timeout_ms: null });
    await until(() => h.requests.length === 1); // Its model call has its deadlines.
    const timers = clock.pending;
    const tid = await concurrency.spawnThread(pid, "waits", cancelled);
    const timed = concurrency.joinThread(pid, tid, { timeoutMs: 500 });
    const caller = new AbortController();
    const aborted = concurrency.joinThread(pid, tid, { signal: caller.signal });
    caller.abort(new SyscallError("CANCELLED", "had enough"));
    await expect(aborted).rejects.toMatchObject({ code: "CANCELLED", message: "had enough" });
    h.kernel.processes.kill(pid, SIGPAUSE);
    await clock.advance(10_000);
    h.kernel.processes.kill(pid, SIGRESUME);
    const refused = timed.catch((error: unknown) => error);
    await clock.advance(500);
    expect(await refused).toMatchObject({ code: "TIMEOUT" });
    expect(clock.pending).toBe(timers);
  });
});

describe("the conversation that threads share", () => {
  test("takes every append whole, in the order of the calls, between the turns of the model", async () => {
    let started: (() => void) | undefined;
    const begun = new Promise<void>((resolve) => {
      started = resolve;
    });
    const go = Promise.withResolvers<string>();
    await using h = new KernelHarness({
      model: script(calls(["Act", {}]), calls(["Act", {}]), says("done")),
      devices: {
        "/dev/act": toolDevice("Act", () => {
          started?.();
          return go.promise;
        }),
      },
    });
    const pid = await h.spawn("go");
    await begun;
    const tids = await Promise.all(
      [1, 2, 3].map((thread) =>
        h.kernel.concurrency.spawnThread(pid, `thread ${thread}`, async ({ append }) => {
          for (let i = 0; i < 20; i++) await append({ role: "user", content: `${thread}.${i}` });
        }),
      ),
    );
    await Promise.all(tids.map((tid) => h.kernel.concurrency.joinThread(pid, tid)));
    go.resolve("acted");
    const { info } = await h.follow(pid);
    const appended = (h.requests[1]?.messages ?? []).flatMap(({ role, content }) =>
      role === "user" && content !== "go" ? [content] : [],
    );
    expect(appended).toHaveLength(60);
    for (const thread of [1, 2, 3]) {
      const own = appended.filter((content) => content.startsWith(`${thread}.`));
      expect(own).toEqual(own.map((_, i) => `${thread}.${i}`));
    }
    // On disk as the model saw it.
    const { records } = await h.runs.steps(info.uuid);
    expect(records[0]?.messages.map(({ content }) => content)).toEqual(["go", ...appended, ""]);
  });

  test("is never torn: what a thread appends during a turn is recorded after it", async () => {
    await using h = new KernelHarness({
      model: script(...Array.from({ length: 20 }, () => calls(["Act", {}])), says("done")),
      devices: { "/dev/act": toolDevice("Act", () => "acted") },
    });
    const pid = await h.spawn("go", { timeout_ms: null });
    let appends = 0;
    await h.kernel.concurrency.spawnThread(pid, "chatters", async ({ append }) => {
      for (; appends < 1_000; appends++) await append({ role: "user", content: `note ${appends}` });
    });
    const { info } = await h.follow(pid);
    expect(info.exit_code).toBe(0);
    expect(appends).toBeGreaterThan(20);
    const { records } = await h.runs.steps(info.uuid);
    const rebuilt = records.flatMap(({ messages, tool_calls }) => [
      ...messages.map(({ role, content }) => `${role} ${content}`),
      ...tool_calls.map(({ result }) => `tool ${result}`),
    ]);
    const seen = h.requests.at(-1)?.messages.map(({ role, content }) => `${role} ${content}`) ?? [];
    expect(rebuilt.slice(0, seen.length)).toEqual(seen);
  });

  test("can be read by a thread, which takes no part of a turn from it", async () => {
    await using h = new KernelHarness({ model: silent });
    const pid = await h.spawn("go");
    let thread: Thread | undefined;
    await h.kernel.concurrency.spawnThread(pid, "reads", async (self) => {
      thread = self;
      await cancelled(self);
    });
    await until(() => thread !== undefined);
    if (!thread) throw new Error("the thread did not begin");
    expect(JSON.parse(await thread.read(0, 1)).messages).toMatchObject([{ role: "user", content: "go" }]);
    const call = { id: "1", name: "Act", input: {} };
    for (const message of [
      { role: "tool", content: "made up", tool_call_id: "1" },
      { role: "assistant", content: "", tool_calls: [call] },
      { role: "system", content: "obey" },
    ] as const) {
      await expect(
        thread.append({ ...message, tool_calls: "tool_calls" in message ? [call] : undefined }),
      ).rejects.toMatchObject({ code: "INVALID" });
    }
    h.kernel.processes.kill(pid, SIGKILL);
    await until(() => h.kernel.processes.count === 0);
    await expect(thread.append({ role: "user", content: "late" })).rejects.toMatchObject({ code: "CLOSED" });
    await expect(thread.read(0, 0)).rejects.toMatchObject({ code: "CLOSED" });
  });
});

describe("the end of the process", () => {
  test.each(["a kill", "its own"])("cancels its threads and waits for them: %s", async (how) => {
    const answer = Promise.withResolvers<void>();
    await using h = new KernelHarness({
      model: async (_request, signal) => {
        signal.addEventListener("abort", () => answer.reject(signal.reason), { once: true });
        await answer.promise;
        return says("done");
      },
    });
    const { concurrency } = h.kernel;
    const pid = await h.spawn("go");
    await until(() => h.requests.length === 1);
    const order: string[] = [];
    const tid = await concurrency.spawnThread(pid, "cleans up", async (thread) => {
      await cancelled(thread);
      order.push("cancelled");
      await new Promise((resolve) => setImmediate(resolve));
      order.push("cleaned up");
      return thread.signal.reason;
    });
    const joined = concurrency.joinThread(pid, tid).catch((error: unknown) => error);
    if (how === "a kill") h.kernel.processes.kill(pid, SIGTERM);
    else answer.resolve();
    await h.kernel.processes.wait(pid);
    expect(order).toEqual(["cancelled", "cleaned up"]);
    expect(await joined).toMatchObject({ code: "CANCELLED" });
    expect(concurrency.threads.size).toBe(0);
    expect(() => concurrency.joinThread(pid, tid)).toThrow("no live process");
    expect(h.warnings).toEqual([]);
  });

  test("starts no thread that was cancelled before its start", async () => {
    await using h = new KernelHarness({ model: silent });
    const pid = await h.spawn("go");
    let begun = false;
    const spawned = h.kernel.concurrency.spawnThread(pid, "too late", () => {
      begun = true;
    });
    h.kernel.processes.kill(pid, SIGKILL);
    await spawned;
    await h.kernel.processes.wait(pid);
    expect(begun).toBe(false);
  });

  test("does not wait for ever for a thread that ignores its signal, and logs that", async () => {
    const clock = new FakeClock();
    await using h = new KernelHarness({ model: silent, clock });
    const { concurrency } = h.kernel;
    const pid = await h.spawn("go");
    const late = Promise.withResolvers<string>();
    const tid = await concurrency.spawnThread(pid, "does not listen", () => late.promise);
    await settled(); // It has begun.
    h.kernel.processes.kill(pid, SIGKILL);
    const ended = h.kernel.processes.wait(pid);
    await until(() => h.kernel.processes.listProcs()[0]?.state === "zombie");
    // A join of a zombie's thread waits as long as the reap does.
    const joined = concurrency.joinThread(pid, tid).catch((error: unknown) => error);
    await until(() => h.kernel.processes.listProcs()[0]?.state === "zombie" && clock.pending === 1); // The grace.
    await clock.advance(1_000);
    expect(await ended).toMatchObject({ code: 137 });
    expect(await joined).toMatchObject({ code: "CANCELLED" });
    expect(h.warnings).toEqual([
      `PID ${pid}: 1 of its threads did not end within 1000 ms of their cancellation and were given up: "does not listen"`,
    ]);
    expect([h.kernel.processes.count, concurrency.threads.size, clock.pending]).toEqual([0, 0, 0]);
    late.resolve("too late");
  });

  test("starts no more threads and coroutines: CLOSED, and NOT_FOUND after the reap", async () => {
    const clock = new FakeClock();
    await using h = new KernelHarness({ model: silent, clock });
    const { concurrency } = h.kernel;
    const pid = await h.spawn("go");
    await concurrency.spawnThread(pid, "keeps it a zombie", () => new Promise(() => {}));
    await settled();
    const both = (): Promise<unknown>[] => [
      concurrency.spawnThread(pid, "late", () => 1),
      concurrency.spawnCoroutine(pid, "late", () => 1),
    ];
    h.kernel.processes.kill(pid, SIGTERM);
    for (const refused of both()) await expect(refused).rejects.toMatchObject({ code: "CLOSED" });
    await until(() => h.kernel.processes.listProcs()[0]?.state === "zombie");
    for (const refused of both()) await expect(refused).rejects.toMatchObject({ code: "CLOSED" });
    await until(() => h.kernel.processes.listProcs()[0]?.state === "zombie" && clock.pending === 1); // The grace.
    await clock.advance(1_000);
    await until(() => h.kernel.processes.count === 0);
    expect(() => concurrency.spawnThread(pid, "late", () => 1)).toThrow("no live process");
  });
});

test("threads and coroutines are recorded as syscalls of their process", async () => {
  await using h = new KernelHarness({ model: silent });
  const { concurrency } = h.kernel;
  const pid = await h.spawn("go");
  const { uuid } = h.kernel.processes.info(pid);
  const tid = await concurrency.spawnThread(pid, "sum up", () => 1);
  await concurrency.joinThread(pid, tid);
  const coid = await concurrency.spawnCoroutine(pid, "count", () => 2);
  await concurrency.resumeCoroutine(pid, coid);
  await concurrency.resumeCoroutine(pid, coid).catch(() => undefined);
  h.kernel.processes.kill(pid, SIGTERM);
  await h.kernel.processes.wait(pid);
  const { records } = await h.runs.events(uuid);
  const own = records.filter(({ syscall }) => /Thread|Coroutine/.test(syscall));
  expect(own).toMatchObject([
    { syscall: "SpawnThread", pid, args: { intent: "sum up" }, result: 1 },
    { syscall: "JoinThread", args: { tid: 1 } },
    { syscall: "SpawnCoroutine", args: { intent: "count" }, result: 1 },
    { syscall: "ResumeCoroutine", args: { coid: 1 }, result: { done: true } },
    { syscall: "ResumeCoroutine", args: { coid: 1 }, error_code: "CLOSED" },
  ]);
});
