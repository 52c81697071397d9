import { describe, expect, test } from "bun:test";
import type { Coroutine } from "../../../src/kernel/concurrency-manager.ts";
import { SIGTERM } from "../../../src/lib/signals.ts";
import { SyscallError } from "../../../src/plugin/index.ts";
import { FakeClock, settled } from "../../support/fake-clock.ts";
import { KernelHarness, silent } from "../../support/kernel.ts";
import { until } from "../../support/until.ts";

describe("a coroutine", () => {
  test("runs from resume to yield, and values go both ways", async () => {
    await using h = new KernelHarness({ model: silent });
    const { concurrency } = h.kernel;
    const pid = await h.spawn("go");
    const heard: unknown[] = [];
    const coid = await concurrency.spawnCoroutine(pid, "echo", async (co, input) => {
      let word = input;
      while (word !== "stop") {
        heard.push(word);
        word = await co.yield(`heard ${String(word)}`);
      }
      return heard.length;
    });
    await settled();
    expect(heard).toEqual([]); // The first Resume starts it.
    const resume = (value: unknown) => concurrency.resumeCoroutine(pid, coid, value);
    expect(await resume("a")).toEqual({ value: "heard a", done: false });
    expect(await resume("b")).toEqual({ value: "heard b", done: false });
    expect(await resume("stop")).toEqual({ value: 2, done: true });
    expect(heard).toEqual(["a", "b"]);
    for (const _again of [1, 2]) {
      await expect(resume("c")).rejects.toMatchObject({
        code: "CLOSED",
        message: "Coroutine 1 has ended: its result was 2.",
      });
    }
  });

  test("throws its error to the caller that resumed it, and reports it afterwards", async () => {
    await using h = new KernelHarness({ model: silent });
    const { concurrency } = h.kernel;
    const pid = await h.spawn("go");
    const coid = await concurrency.spawnCoroutine(pid, "fails", () => {
      throw new SyscallError("UNAVAILABLE", "not today");
    });
    const resume = () => concurrency.resumeCoroutine(pid, coid);
    await expect(resume()).rejects.toMatchObject({ code: "UNAVAILABLE", syscall: "ResumeCoroutine" });
    await expect(resume()).rejects.toMatchObject({
      code: "CLOSED",
      message: "Coroutine 1 has ended: it failed: SyscallError: not today.",
    });
    await expect(concurrency.resumeCoroutine(pid, 2)).rejects.toMatchObject({ code: "NOT_FOUND" });
  });

  test("is resumed by one caller at a time, and not by itself", async () => {
    await using h = new KernelHarness({ model: silent });
    const { concurrency } = h.kernel;
    const pid = await h.spawn("go");
    let fromInside: unknown;
    const coid = await concurrency.spawnCoroutine(pid, "knots", async (co) => {
      fromInside = await concurrency.resumeCoroutine(pid, co.coid).catch((error: unknown) => error);
      await co.yield(1);
    });
    const first = concurrency.resumeCoroutine(pid, coid);
    const second = concurrency.resumeCoroutine(pid, coid);
    await expect(second).rejects.toMatchObject({ code: "INVALID" });
    expect(await first).toEqual({ value: 1, done: false });
    expect(fromInside).toMatchObject({ code: "INVALID" });
  });

  test("awaits each yield before the next", async () => {
    await using h = new KernelHarness({ model: silent });
    const { concurrency } = h.kernel;
    const pid = await h.spawn("go");
    const coid = await concurrency.spawnCoroutine(pid, "hasty", async (co) => {
      const first = co.yield(1);
      await expect(co.yield(2)).rejects.toMatchObject({ code: "INVALID" });
      return await first;
    });
    expect(await concurrency.resumeCoroutine(pid, coid)).toEqual({ value: 1, done: false });
    expect(await concurrency.resumeCoroutine(pid, coid, "on")).toEqual({ value: "on", done: true });
  });

  test("that ends in the middle of a yield gives its result to the next caller", async () => {
    await using h = new KernelHarness({ model: silent });
    const { concurrency } = h.kernel;
    const pid = await h.spawn("go");
    const coid = await concurrency.spawnCoroutine(pid, "leaves", (co) => {
      void co.yield(1);
      return "left";
    });
    expect(await concurrency.resumeCoroutine(pid, coid)).toEqual({ value: 1, done: false });
    await expect(concurrency.resumeCoroutine(pid, coid)).rejects.toThrow('its result was "left"');
  });

  test("passes 10,000 values in their order", async () => {
    await using h = new KernelHarness({ model: silent });
    const { concurrency } = h.kernel;
    const pid = await h.spawn("go");
    const coid = await concurrency.spawnCoroutine(pid, "counts", async (co) => {
      for (let i = 0; i < 10_000; i++) await co.yield(i);
    });
    for (let i = 0; i < 10_000; i++) {
      const { value } = await concurrency.resumeCoroutine(pid, coid);
      if (value !== i) throw new Error(`value ${String(value)} came for ${i}`);
    }
    expect(await concurrency.resumeCoroutine(pid, coid)).toEqual({ value: undefined, done: true });
  });

  test("counts towards a limit; those that ended free it", async () => {
    await using h = new KernelHarness({ model: silent });
    const { concurrency } = h.kernel;
    const pid = await h.spawn("go");
    for (let i = 0; i < 2_000; i++) {
      await concurrency.resumeCoroutine(pid, await concurrency.spawnCoroutine(pid, "short", () => i));
    }
    expect(concurrency.coroutines.size).toBe(1024);
    for (let i = 0; i < 256; i++) await concurrency.spawnCoroutine(pid, "waits", () => i);
    await expect(concurrency.spawnCoroutine(pid, "one more", () => 1)).rejects.toMatchObject({
      code: "EXHAUSTED",
    });
    await expect(concurrency.resumeCoroutine(pid, 1)).rejects.toThrow("is forgotten");
  });
});

describe("a caller that gives up on a coroutine cancels it", () => {
  test.each(["a deadline", "a signal"])("%s", async (what) => {
    const clock = new FakeClock();
    await using h = new KernelHarness({ model: silent, clock });
    const { concurrency } = h.kernel;
    const pid = await h.spawn("go", { timeout_ms: null });
    await until(() => h.requests.length === 1); // Its model call has its deadlines.
    const timers = clock.pending;
    const work = Promise.withResolvers<void>();
    let afterwards: unknown;
    const coid = await concurrency.spawnCoroutine(pid, "slow", async (co) => {
      await work.promise;
      afterwards = await co.yield("no caller takes it").catch((error: unknown) => error);
    });
    const caller = new AbortController();
    const resumed = concurrency.resumeCoroutine(
      pid,
      coid,
      undefined,
      what === "a deadline" ? { timeoutMs: 100 } : { signal: caller.signal },
    );
    const code = what === "a deadline" ? "TIMEOUT" : "CANCELLED";
    const refused = resumed.catch((error: unknown) => error);
    await clock.advance(100);
    caller.abort(new SyscallError("CANCELLED", "had enough"));
    expect(await refused).toMatchObject({ code });
    await expect(concurrency.resumeCoroutine(pid, coid)).rejects.toMatchObject({ code });
    work.resolve();
    await settled();
    expect(afterwards).toMatchObject({ code });
    await expect(concurrency.resumeCoroutine(pid, coid)).rejects.toMatchObject({ code: "CLOSED" });
    expect(clock.pending).toBe(timers);
  });

  test("but not before it has begun, when its signal was aborted first", async () => {
    await using h = new KernelHarness({ model: silent });
    const { concurrency } = h.kernel;
    const pid = await h.spawn("go");
    const coid = await concurrency.spawnCoroutine(pid, "waits", () => "done");
    const signal = AbortSignal.abort(new SyscallError("CANCELLED", "had enough"));
    await expect(concurrency.resumeCoroutine(pid, coid, 1, { signal })).rejects.toThrow("had enough");
    expect(await concurrency.resumeCoroutine(pid, coid)).toEqual({ value: "done", done: true });
  });
});

describe("the end of the process releases", () => {
  /** Where a coroutine can stand when its process ends (seeds 2.6), and where nothing of it is left to release. */
  test.each([
    ["one that waits for a resume", "waiting"],
    ["one that yields a value that no caller takes", "yielding"],
    ["one that yields again and again", "stubborn"],
    ["one that has not begun", "new"],
  ])("%s", async (_title, where) => {
    await using h = new KernelHarness({ model: silent });
    const { concurrency } = h.kernel;
    const pid = await h.spawn("go");
    const work = Promise.withResolvers<void>();
    const seen: unknown[] = [];
    const body = async (co: Coroutine): Promise<void> => {
      if (where === "yielding") await work.promise;
      try {
        for (;;) await co.yield(1);
      } catch (error) {
        seen.push(error);
        if (where !== "stubborn") throw error;
        await co.yield(2).catch((again: unknown) => seen.push(again));
      } finally {
        seen.push("cleaned up");
      }
    };
    const coid = await concurrency.spawnCoroutine(pid, where, body);
    const resumed =
      where === "new" ? undefined : concurrency.resumeCoroutine(pid, coid).catch((error: unknown) => error);
    if (where === "yielding") await settled();
    else await resumed;
    h.kernel.processes.kill(pid, SIGTERM);
    if (where === "yielding") expect(await resumed).toMatchObject({ code: "CANCELLED" });
    work.resolve();
    await h.kernel.processes.wait(pid);
    const released = { code: "CANCELLED" };
    expect(seen).toMatchObject(
      where === "new"
        ? []
        : where === "stubborn"
          ? [released, released, "cleaned up"]
          : [released, "cleaned up"],
    );
    expect(concurrency.coroutines.size).toBe(0);
    expect(h.warnings).toEqual([]);
  });

  test("ends all but one that ignores it, which is given up and reported", async () => {
    const clock = new FakeClock();
    await using h = new KernelHarness({ model: silent, clock });
    const { concurrency } = h.kernel;
    const pid = await h.spawn("go");
    const coid = await concurrency.spawnCoroutine(pid, "does not listen", () => new Promise(() => {}));
    const resumed = concurrency.resumeCoroutine(pid, coid).catch((error: unknown) => error);
    await settled();
    h.kernel.processes.kill(pid, SIGTERM);
    expect(await resumed).toMatchObject({ code: "CANCELLED" });
    await until(() => h.kernel.processes.listProcs()[0]?.state === "zombie" && clock.pending === 1); // The grace.
    await clock.advance(1_000);
    await until(() => h.kernel.processes.count === 0);
    expect(h.warnings.join()).toContain("1 of its coroutines did not end within 1000 ms");
    expect([concurrency.coroutines.size, clock.pending]).toEqual([0, 0]);
  });
});
