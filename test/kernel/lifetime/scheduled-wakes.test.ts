import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { FakeClock, passing } from "../../support/fake-clock.ts";
import { calls, KernelHarness, type Model, says } from "../../support/kernel.ts";
import { crashInto } from "../../support/sealed-record.ts";
import { until } from "../../support/until.ts";

// Each suspension and resume waits for the disk, which others may use too.
setDefaultTimeout(60_000);

const HOUR = 3_600_000;
/** How often a wait in place checks that the person is still there. */
const CHECK_MS = 5_000;

/** Calls Wake with this input, then answers with the tool's result. */
function waits(input: Record<string, unknown>): Model {
  return ({ messages }) => {
    const heard = messages.findLast(({ role }) => role === "tool");
    return heard ? says(`heard: ${heard.content}`) : calls(["Wake", input]);
  };
}

/** Attaches a person who can answer. */
function watch(h: KernelHarness, pid: number): () => void {
  const channel = h.kernel.attach(pid, { answers: true });
  return () => channel.end();
}

describe("a run that calls Wake", () => {
  test("is suspended until then, and its call returns the time", async () => {
    const clock = new FakeClock();
    await using h = new KernelHarness({ clock, model: waits({ in: "2h" }), wakes: true });
    const at_ms = clock.now() + 2 * HOUR;
    const { info } = await h.run("check later");
    expect(info).toMatchObject({
      exit_code: 75,
      exit_reason: "suspended",
      suspended: { reason: "it called Wake", cause: "asked", by_itself: true, wake: { on: "at", at_ms } },
    });
    await clock.advance(2 * HOUR);
    const done = (await h.resumed(info.uuid)).info;
    expect(done).toMatchObject({
      exit_code: 0,
      result: "heard: The time has come. It is 2026-01-01T02:00:00Z.",
    });
    // The wait is none of its running time, and the call counts once.
    expect(done.elapsed_ms).toBeLessThan(HOUR);
    expect(done.tool_calls).toBe(1);
    expect((await h.runs.steps(info.uuid)).records[0]?.tool_calls).toMatchObject([
      { name: "Wake", state: "done" },
    ]);
  });

  test.each([
    [
      "a time with an offset",
      { at: "2026-01-01T02:30:00+01:00" },
      { on: "at", at_ms: Date.UTC(2026, 0, 1, 1, 30) },
    ],
    [
      "a message, at the latest then",
      { on: "message", in: "1h" },
      { on: "message", until_ms: Date.UTC(2026, 0, 1, 1) },
    ],
    [
      "a message, no longer than wake_wait",
      { on: "message" },
      { on: "message", until_ms: Date.UTC(2026, 0, 8) },
    ],
  ])("waits for %s", async (_, input, wake) => {
    await using h = new KernelHarness({ clock: new FakeClock(), model: waits(input), wakes: true });
    const { info } = await h.run("go");
    expect(info.suspended).toMatchObject({ by_itself: true });
    expect(info.suspended?.wake as object).toEqual(wake);
  });

  test.each([
    [
      "a time that is past",
      { at: "2025-12-31T23:59:59Z" },
      /expected a time after now, 2026-01-01T00:00:00Z/,
    ],
    [
      "a time without its offset",
      { at: "2026-01-01T09:00" },
      /expected a time with its offset, .*"2026-01-01T09:00"/,
    ],
    ["a longer wait than wake_wait", { in: "8d" }, /at most 7d \(wake_wait\), got 8d/],
    ["no duration", { in: "soon" }, /expected a duration like .*"soon"/],
    ["both times", { in: "1h", at: "2026-01-01T09:00:00Z" }, /one of in and at, got both/],
    ["nothing", {}, /expected in, at or on/],
  ])("is refused %s, and continues", async (_, input, problem) => {
    await using h = new KernelHarness({ clock: new FakeClock(), model: waits(input), wakes: true });
    const { info } = await h.run("go");
    expect(info.exit_code).toBe(0);
    expect(info.result).toMatch(problem);
  });

  test("is refused the wait in its last step", async () => {
    await using h = new KernelHarness({ model: waits({ in: "1h" }), wakes: true });
    const { info } = await h.run("go", { max_steps: 1 });
    expect(info.exit_reason).toBe("max_steps");
    const { records } = await h.runs.steps(info.uuid);
    expect(records[0]?.tool_calls[0]).toMatchObject({ state: "failed", error_code: "EXHAUSTED" });
  });

  test("is refused the wait where no daemon would resume it", async () => {
    await using h = new KernelHarness({ model: waits({ in: "1h" }) });
    const { info } = await h.run("go");
    expect(info).toMatchObject({ exit_code: 0 });
    expect(info.result).toContain("no daemon that could resume it");
  });

  test("sees that a person resumed it early", async () => {
    const clock = new FakeClock();
    await using h = new KernelHarness({ clock, model: waits({ in: "2h" }), wakes: true });
    const { info } = await h.run("go");
    await clock.advance(HOUR);
    expect((await h.resumed(info.uuid)).info.result).toBe(
      "heard: You were resumed before your wait was over. It is 2026-01-01T01:00:00Z.",
    );
  });

  test("reads the user's message that resumes it", async () => {
    await using h = new KernelHarness({ model: waits({ in: "2h" }), wakes: true });
    const { info } = await h.run("go");
    expect((await h.resumed(info.uuid, { input: "come back" })).info.result).toContain(
      "The user has sent a message.",
    );
    expect(h.requests.at(-1)?.messages.at(-1)).toMatchObject({ role: "user", content: "come back" });
  });

  test("suspends its parent with it, whose call returns the child's answer", async () => {
    const clock = new FakeClock();
    const child = waits({ in: "1h" });
    const model: Model = (request, signal) => {
      if (request.intent === "child") return child(request, signal);
      const heard = request.messages.findLast(({ role }) => role === "tool");
      return heard ? says(heard.content) : calls(["Agent", { intent: "child" }]);
    };
    await using h = new KernelHarness({ clock, model, wakes: true });
    const { info } = await h.run("parent");
    expect(info.suspended?.wake).toMatchObject({ on: "child" });
    await clock.advance(HOUR);
    expect((await h.resumed(info.uuid)).info.result).toStartWith("heard: The time has come.");
  });
});

describe("a run that calls Wake while a person watches", () => {
  /** A run that waits in place. */
  async function waiting(
    h: KernelHarness,
    clock: FakeClock,
  ): Promise<{ pid: number; leave(): void; uuid: string }> {
    const pid = await h.spawn("go", { attended: true });
    const leave = watch(h, pid);
    await until(() => clock.waits.includes(CHECK_MS), "the wait");
    return { pid, leave, uuid: h.kernel.processes.info(pid).uuid };
  }

  test("waits in place, and none of its time runs", async () => {
    const clock = new FakeClock();
    await using h = new KernelHarness({ clock, model: waits({ in: "2h" }), wakes: true });
    const { pid, leave } = await waiting(h, clock);
    await clock.advance(2 * HOUR - 1);
    expect(h.kernel.processes.info(pid).state).toBe("running");
    const { info } = await passing(clock, h.follow(pid));
    expect(info.result).toBe("heard: The time has come. It is 2026-01-01T02:00:00Z.");
    expect(info.elapsed_ms).toBeLessThan(HOUR);
    leave();
  });

  test("is woken by the user's message", async () => {
    const clock = new FakeClock();
    await using h = new KernelHarness({ clock, model: waits({ in: "2h" }), wakes: true });
    const { pid, leave } = await waiting(h, clock);
    await h.kernel.chats.send(pid, { text: "how is it?", when: "next_step", images: [] });
    const { info } = await passing(clock, h.follow(pid));
    expect(info.result).toContain("The user has sent a message.");
    leave();
  });

  test("is suspended when the person leaves", async () => {
    const clock = new FakeClock();
    await using h = new KernelHarness({ clock, model: waits({ in: "2h" }), wakes: true });
    const { pid, leave } = await waiting(h, clock);
    leave();
    const { info } = await passing(clock, h.follow(pid));
    expect(info.suspended).toMatchObject({ by_itself: true, wake: { on: "at" } });
  });

  test("continues to wait after its kernel was killed", async () => {
    const clock = new FakeClock();
    await using first = new KernelHarness({ clock, model: waits({ in: "2h" }), wakes: true });
    await using second = new KernelHarness({ clock, model: waits({ in: "2h" }), wakes: true });
    const { uuid, leave } = await waiting(first, clock);
    crashInto(second, first);
    const again = (await second.resumed(uuid)).info;
    expect(again.suspended?.wake).toEqual({ on: "at", at_ms: Date.UTC(2026, 0, 1, 2) });
    await clock.advance(2 * HOUR);
    expect((await second.resumed(uuid)).info.result).toContain("The time has come.");
    leave();
  });
});

test("a run that is killed while it waits in place ends at once", async () => {
  const clock = new FakeClock();
  await using h = new KernelHarness({ clock, model: waits({ in: "2h" }), wakes: true });
  const pid = await h.spawn("go", { attended: true });
  const leave = watch(h, pid);
  await until(() => clock.waits.includes(CHECK_MS), "the wait");
  h.kernel.signals.signal(pid, 1);
  expect((await h.follow(pid)).info).toMatchObject({ exit_code: 143 });
  leave();
});
