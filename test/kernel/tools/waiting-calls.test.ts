import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import type { ProcInfo } from "../../../src/kernel/types.ts";
import { SyscallError } from "../../../src/plugin/index.ts";
import type { StepRecord } from "../../../src/store/runs/schema.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { calls, KernelHarness, type Model, says, silent } from "../../support/kernel.ts";
import { openJournal } from "../../support/open-journal.ts";
import { crashInto } from "../../support/sealed-record.ts";
import { seeded } from "../../support/seeded.ts";
import { until } from "../../support/until.ts";

// Each suspension and resume waits for the disk, which others may use too.
setDefaultTimeout(120_000);

const HOUR = 3_600_000;

/** The parent spawns one agent and repeats its result; `child` is that agent. */
function family(child: Model): Model {
  return (request, signal) => {
    if (request.intent === "child") return child(request, signal);
    const heard = request.messages.findLast(({ role }) => role === "tool");
    return heard ? says(`heard: ${heard.content}`) : calls(["Agent", { intent: "child" }]);
  };
}

/** The n-th model for the n-th request of the child. */
function inTurn(...models: Model[]): Model {
  let turn = 0;
  return (request, signal) => (models[turn++] ?? silent)(request, signal);
}

const answers: Model = () => says("child's answer");

const quota: Model = () => {
  throw new SyscallError("EXHAUSTED", "too many requests", { retryAfterMs: HOUR });
};

async function both(h: KernelHarness): Promise<{ parent: ProcInfo; child: ProcInfo }> {
  const find = (intent: string) => h.kernel.processes.infos().find((info) => info.intent === intent);
  await until(() => (find("child")?.steps ?? 0) > 0, "the child's first step");
  const parent = find("parent");
  const child = find("child");
  if (!parent || !child) throw new Error("one of them has ended");
  return { parent, child };
}

async function stepsOf(h: KernelHarness, uuid: string): Promise<StepRecord[]> {
  return (await h.runs.steps(uuid)).records;
}

async function childrenOnDisk(h: KernelHarness): Promise<ProcInfo[]> {
  return (await h.runs.list()).filter(({ intent }) => intent === "child");
}

describe("a call that waits for a child", () => {
  test("waits on after a suspension: the child resumes too, and its answer is the call's result", async () => {
    await using h = new KernelHarness({ model: family(inTurn(silent, answers)) });
    const pid = await h.spawn("parent");
    const { parent, child } = await both(h);
    await h.kernel.lifecycle.suspend(pid);
    await until(() => h.kernel.processes.count === 0);
    expect(await stepsOf(h, parent.uuid)).toEqual([]);
    const { entries } = await openJournal(h.runs, parent.uuid);
    expect(entries.map(({ t }) => t)).toEqual(["answer", "call_start", "waiting"]);
    expect(entries.at(-1)).toMatchObject({ on: { on: "child", uuid: child.uuid } });

    const { info } = await h.resumed(parent.uuid);
    expect(info).toMatchObject({ exit_code: 0, steps: 2, tool_calls: 1, tokens_used: 45 });
    expect(info.result).toStartWith("heard: child's answer");
    expect(info.children).toMatchObject([{ uuid: child.uuid, exit_code: 0 }]);
    const [step] = await stepsOf(h, parent.uuid);
    expect(step).toMatchObject({ action: "spawn", tool_calls: [{ name: "Agent", state: "done" }] });
    expect(step?.children).toMatchObject([{ uuid: child.uuid }]);
    expect(await h.recordOf(child.uuid)).toMatchObject({ exit_code: 0, parent_uuid: parent.uuid });
    expect(await childrenOnDisk(h)).toHaveLength(1);
  });

  test("waits on after its kernel was killed, too", async () => {
    await using first = new KernelHarness({ model: family(silent) });
    await using second = new KernelHarness({ model: family(answers) });
    await first.spawn("parent");
    const { parent, child } = await both(first);
    crashInto(second, first);
    const { info } = await second.resumed(parent.uuid);
    expect(info).toMatchObject({ exit_code: 0, tokens_used: 45, children: [{ uuid: child.uuid }] });
    expect(info.result).toStartWith("heard: child's answer");
    expect(await childrenOnDisk(second)).toHaveLength(1);
  });

  test("has the answer of a child that ended while the run was suspended, and the child is not asked again", async () => {
    const asked: string[] = [];
    const model = family(inTurn(silent, answers));
    await using h = new KernelHarness({
      model: (request, signal) => {
        asked.push(request.intent);
        return model(request, signal);
      },
    });
    const pid = await h.spawn("parent");
    const { parent, child } = await both(h);
    await h.kernel.lifecycle.suspend(pid);
    expect((await h.resumed(child.uuid)).info).toMatchObject({ exit_code: 0, ppid: 0, tokens_used: 15 });
    const { info } = await h.resumed(parent.uuid);
    expect(info.result).toStartWith("heard: child's answer");
    expect(info).toMatchObject({ children: [{ uuid: child.uuid, exit_code: 0 }], tokens_used: 45 });
    expect(asked).toEqual(["parent", "child", "child", "parent"]);
  });

  test("adopts a child that resumed alone", async () => {
    const gate = Promise.withResolvers<void>();
    const held: Model = async () => {
      await gate.promise;
      return says("child's answer");
    };
    await using h = new KernelHarness({ model: family(inTurn(silent, held)) });
    const pid = await h.spawn("parent");
    const { parent, child } = await both(h);
    await h.kernel.lifecycle.suspend(pid);
    const alone = await h.kernel.lifecycle.resume(child.uuid, null, h.opts());
    await until(() => h.requests.length === 3);
    const again = await h.kernel.lifecycle.resume(parent.uuid, null, h.opts());
    const ended = h.follow(again.pid);
    await until(() => h.kernel.processes.info(alone.pid).ppid === again.pid);
    gate.resolve();
    const { info } = await ended;
    expect(info).toMatchObject({ exit_code: 0, children: [{ uuid: child.uuid }], tokens_used: 45 });
  });

  test("spawns the recorded child that never began, under the same UUID", async () => {
    await using first = new KernelHarness({ model: family(silent) });
    await using second = new KernelHarness({ model: family(answers) });
    await first.spawn("parent");
    const { parent, child } = await both(first);
    crashInto(second, first);
    rmSync(join(second.runs.dir(child.uuid), "proc-info.json"));
    const { info } = await second.resumed(parent.uuid);
    expect(info).toMatchObject({ exit_code: 0, children: [{ uuid: child.uuid, exit_code: 0 }] });
    expect(await stepsOf(second, child.uuid)).toHaveLength(1);
  });

  test("leaves the calls after it to begin when its run resumes", async () => {
    const model: Model = (request, signal) => {
      if (request.intent === "child") return inner(request, signal);
      const heard = request.messages.filter(({ role }) => role === "tool");
      return heard.length > 0
        ? says("done")
        : calls(["Agent", { intent: "child" }], ["Plan", { steps: ["x"] }]);
    };
    const inner = inTurn(silent, answers);
    await using h = new KernelHarness({ model });
    const pid = await h.spawn("parent");
    const { parent } = await both(h);
    await h.kernel.lifecycle.suspend(pid);
    expect((await h.resumed(parent.uuid)).info).toMatchObject({ exit_code: 0, tool_calls: 2 });
    const [step] = await stepsOf(h, parent.uuid);
    expect(step?.tool_calls.map(({ name, state }) => [name, state])).toEqual([
      ["Agent", "done"],
      ["Plan", "done"],
    ]);
  });

  test("gets an error for a child that cannot resume", async () => {
    await using h = new KernelHarness({ model: family(silent) });
    const pid = await h.spawn("parent");
    const { parent, child } = await both(h);
    await h.kernel.lifecycle.suspend(pid);
    rmSync(join(h.runs.dir(child.uuid), "process-meta.json"));
    const { info } = await h.resumed(parent.uuid);
    expect(info.result).toContain("Error INVALID");
    expect(info.result).toContain("can't be resumed");
  });
});

describe("a child that is suspended", () => {
  test("suspends its ancestors until it has ended, up to the root", async () => {
    const model: Model = (request, signal) => {
      if (request.intent === "below") return below(request, signal);
      const heard = request.messages.findLast(({ role }) => role === "tool");
      if (heard) return says(`${request.intent} has heard`);
      return calls(["Agent", { intent: request.intent === "parent" ? "child" : "below" }]);
    };
    const below = inTurn(quota, answers);
    const clock = new FakeClock();
    await using h = new KernelHarness({ model, clock });
    const { info } = await h.run("parent");
    const [parent, child, leaf] = await h.runs.list();
    expect(info).toMatchObject({ exit_code: 75, exit_reason: "suspended" });
    expect(parent?.suspended?.wake).toEqual({ on: "child", uuid: child?.uuid ?? "" });
    expect(child?.suspended?.wake).toEqual({ on: "child", uuid: leaf?.uuid ?? "" });
    expect(leaf?.suspended?.wake).toMatchObject({ on: "at" });
    expect(parent?.suspended?.reason).toContain("too many requests");
    await clock.advance(HOUR);
    expect((await h.resumed(info.uuid)).info).toMatchObject({
      exit_code: 0,
      result: "parent has heard",
      tokens_used: 75,
      children: [{ uuid: child?.uuid ?? "", exit_code: 0, tokens_used: 45 }],
    });
    expect(await h.runs.list()).toHaveLength(3);
  });

  test("by a person, too: the parent does not fail", async () => {
    await using h = new KernelHarness({ model: family(inTurn(silent, answers)) });
    const pid = await h.spawn("parent");
    const { parent, child } = await both(h);
    const ended = h.follow(pid);
    await h.kernel.lifecycle.suspend(child.pid);
    expect((await ended).info).toMatchObject({
      exit_code: 75,
      suspended: { wake: { on: "child", uuid: child.uuid } },
    });
    expect((await h.resumed(parent.uuid)).info).toMatchObject({ exit_code: 0 });
  });
});

describe("a quota window", () => {
  const limited = (detail: object): Model => {
    let calls = 0;
    return () => {
      if (++calls > 1) return says("went on");
      throw new SyscallError("EXHAUSTED", "too many requests", detail);
    };
  };

  test.each([
    ["Retry-After", (now: number) => ({ retryAfterMs: HOUR, now })],
    ["a reset", (now: number) => ({ resetAtMs: now + HOUR })],
  ])("of %s that is longer than it sits out suspends the run until it ends", async (_, detail) => {
    const clock = new FakeClock();
    await using h = new KernelHarness({ clock, model: limited(detail(clock.now())) });
    const { info } = await h.run("go");
    expect(info).toMatchObject({
      exit_code: 75,
      exit_reason: "suspended",
      suspended: { wake: { on: "at", at_ms: clock.now() + HOUR } },
      error: null,
    });
    expect(info.suspended?.reason).toContain("too many requests");
    const { records } = await h.runs.events(info.uuid);
    expect(records.filter(({ syscall }) => syscall === "Suspend")).toHaveLength(1);
    await clock.advance(HOUR);
    expect((await h.resumed(info.uuid)).info).toMatchObject({ exit_code: 0, result: "went on", steps: 1 });
  });

  test.each([
    ["a shorter one is sat out", { retryAfterMs: 60_000 }, { model_retries: 1 }, 0, "completed"],
    ["one that comes again and again is an error", { retryAfterMs: 60_000 }, {}, 1, "llm_error"],
    [
      "what is never to be tried again is an error",
      { retryAfterMs: HOUR, retryable: false },
      {},
      1,
      "llm_error",
    ],
    [
      "it may be longer than the call itself",
      { retryAfterMs: 60_000 },
      { model_timeout: 30_000 },
      75,
      "suspended",
    ],
  ])("%s", async (_, detail, limits, code, reason) => {
    const clock = new FakeClock();
    await using h = new KernelHarness({ clock, model: limited(detail), limits });
    const ended = h.run("go");
    await until(() => h.requests.length === 1, "its first call");
    for (let i = 0; i < 10; i++) await clock.advance(60_000);
    expect((await ended).info).toMatchObject({ exit_code: code, exit_reason: reason });
  });

  test("suspends all runs that wait for the same key, each until the same time", async () => {
    const clock = new FakeClock();
    await using h = new KernelHarness({ clock, model: quota });
    const now = clock.now();
    const first = await h.run("go");
    await clock.advance(HOUR / 2);
    const second = await h.run("go");
    for (const { info } of [first, second])
      expect(info.suspended?.wake).toEqual({ on: "at", at_ms: now + HOUR });
    expect(h.requests).toHaveLength(1);
    await clock.advance(HOUR);
  });
});

describe("a run that is suspended to wait for messages", () => {
  /** Sends what its intent says, and tells what came of it; `waits` is silent at first. */
  const model = (): Model => {
    const waits = inTurn(silent, (request) => says(`read: ${request.messages.at(-1)?.content}`));
    return (request, signal) => {
      if (request.intent === "waits") return waits(request, signal);
      const heard = request.messages.findLast(({ role }) => role === "tool");
      const [to = "", message = ""] = request.intent.split(" ");
      return heard ? says(heard.content) : calls(["SendMessage", { to, message }]);
    };
  };

  async function suspended(h: KernelHarness, on: "message" | "never"): Promise<ProcInfo> {
    const pid = await h.spawn("waits");
    await until(() => h.requests.length === 1);
    const { uuid } = h.kernel.processes.info(pid);
    await h.kernel.lifecycle.suspend(pid, { wake: { on } });
    await until(() => h.kernel.processes.count === 0);
    return h.recordOf(uuid);
  }

  test.each(["uuid", "pid"] as const)("takes them, named by its %s, and gets each once", async (by) => {
    const mailed: string[] = [];
    await using h = new KernelHarness({ model: model(), wakes: true, mailed: (uuid) => mailed.push(uuid) });
    const info = await suspended(h, "message");
    expect(info.suspended).toMatchObject({ wake: { on: "message" }, by_itself: true });
    const { result } = (await h.run(`${info[by]} hello`)).info;
    expect(result).toContain(`the run ${info.uuid}`);
    expect(mailed).toEqual([info.uuid]);
    expect((await h.runs.inbox(info.uuid)).unread).toMatchObject([{ kind: "message", data: "hello" }]);
    const again = (await h.resumed(info.uuid)).info;
    expect(again.result).toMatch(/^read: [\s\S]*hello/);
    expect((await h.runs.inbox(info.uuid)).unread).toEqual([]);
  });

  test("takes messages of many senders at once, each once", async () => {
    await using h = new KernelHarness({ model: model(), wakes: true });
    const { uuid } = await suspended(h, "message");
    await Promise.all(Array.from({ length: 10 }, (_, n) => h.run(`${uuid} m${n}`)));
    const { unread } = await h.runs.inbox(uuid);
    const texts = unread.map((entry) => (entry.kind === "message" ? entry.data : ""));
    expect(texts.sort()).toEqual(Array.from({ length: 10 }, (_, n) => `m${n}`));
    expect(new Set(unread.map(({ seq }) => seq)).size).toBe(10);
  });

  test("refuses them when its inbox is full, as a live run does", async () => {
    await using h = new KernelHarness({ model: model(), wakes: true });
    const { uuid } = await suspended(h, "message");
    const record = await h.runs.reopen(uuid);
    const message = { kind: "message", ts: "", from_pid: 0, from_uuid: null, data: "x" } as const;
    for (let n = 0; n < 256; n++) await record.inbox.add(message);
    await record.close();
    expect((await h.run(`${uuid} hello`)).info.result).toStartWith("Error EXHAUSTED");
  });

  test("a run that waits for something else receives no messages", async () => {
    await using h = new KernelHarness({ model: model(), wakes: true });
    const { uuid } = await suspended(h, "never");
    expect((await h.run(`${uuid} hello`)).info.result).toStartWith("Error NOT_FOUND");
    expect((await h.runs.inbox(uuid)).unread).toEqual([]);
  });
});

test("can change what it waits for while no kernel resumes it", async () => {
  await using h = new KernelHarness({ model: inTurn(silent, answers), wakes: true });
  const pid = await h.spawn("go");
  await until(() => h.requests.length === 1);
  const { uuid } = h.kernel.processes.info(pid);
  await h.kernel.lifecycle.suspend(pid, { wake: { on: "at", at_ms: 1 } });
  expect((await h.recordOf(uuid)).suspended).toMatchObject({ by_itself: true });
  await h.kernel.lifecycle.setWake(uuid, h.dataDir, "on request");
  expect((await h.recordOf(uuid)).suspended).toEqual({
    reason: "on request",
    cause: "asked",
    wake: { on: "never" },
  });
  expect((await h.resumed(uuid)).info).toMatchObject({ exit_code: 0 });
  const ended = await h.recordOf(uuid);
  await h.kernel.lifecycle.setWake(uuid, h.dataDir, "on request");
  expect(await h.recordOf(uuid)).toEqual(ended);
});

describe("a tree whose runs are suspended at random", () => {
  test.each(Array.from({ length: 12 }, (_, seed) => seed))(
    "comes to its end with every child once (seed %i)",
    async (seed) => {
      const random = seeded(seed);
      let answered = 0;
      // A slow disk makes a step slow, and runs that are suspended in each step come to no end. The last suspension is
      // of all, so that none stays silent.
      let left = 15;
      const model: Model = async (request, signal) => {
        // A call that was not begun is named as such, and repeated.
        const heard = request.messages.filter(({ content }) => content.startsWith("end of")).length;
        const wanted = request.intent.length < 3 ? 2 : 0;
        if (left > 1 && random() < 0.1) return silent(request, signal);
        answered++;
        if (heard === wanted) return says(`end of ${request.intent}`);
        return calls(["Agent", { intent: `${request.intent}${heard}` }]);
      };
      await using h = new KernelHarness({ model });
      const { uuid } = h.kernel.processes.info(await h.spawn("r", { max_steps: null, timeout_ms: null }));
      for (;;) {
        const live = h.kernel.processes.infos();
        const root = await h.runs.info(uuid);
        if (root?.exit_code === 0) break;
        if (live.length === 0) await h.kernel.lifecycle.resume(uuid, null, h.opts());
        for (let wait = Math.floor(random() * 30); wait > 0; wait--) await new Promise(setImmediate);
        const any = random() < 0.15 ? live[Math.floor(random() * live.length)] : undefined;
        const one = left > 1 ? any : live.find((info) => info.uuid === uuid);
        if (!one || left === 0) continue;
        // It may have ended meanwhile.
        const { code } = await h.kernel.lifecycle.suspend(one.pid).catch(() => ({ code: 0 }));
        if (code === 75) left--;
      }
      const root = await h.recordOf(uuid);
      expect(root).toMatchObject({ exit_code: 0, result: "end of r" });
      const runs = await h.runs.list();
      expect(runs.map(({ intent }) => intent).sort()).toEqual(["r", "r0", "r00", "r01", "r1", "r10", "r11"]);
      expect(runs.every(({ exit_code }) => exit_code === 0)).toBe(true);
      expect(root.children).toHaveLength(2);
      const answers = (await Promise.all(runs.map((run) => stepsOf(h, run.uuid)))).flat();
      // Nothing is counted twice, and no step is left out. An answer that came with the suspension has no step.
      expect(root.tokens_used).toBeGreaterThanOrEqual(answers.length * 15);
      expect(root.tokens_used).toBeLessThanOrEqual(answered * 15);
    },
  );
});
