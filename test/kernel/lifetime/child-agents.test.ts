import { describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Task } from "../../../src/kernel/lifetime/process-runner.ts";
import type { ProcInfo } from "../../../src/kernel/types.ts";
import { SIGKILL, SIGPAUSE, SIGRESUME, SIGTERM } from "../../../src/lib/signals.ts";
import { type LLMRequest, SyscallError } from "../../../src/plugin/index.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import {
  byIntent,
  calls,
  KernelHarness,
  type Model,
  says,
  silent,
  toolDevice,
} from "../../support/kernel.ts";
import { seeded } from "../../support/seeded.ts";
import { until } from "../../support/until.ts";

// Each suspension and resume waits for the disk, which others may use too.
setDefaultTimeout(120_000);

const agent =
  (intent: string, more: Record<string, string> = {}): Model =>
  () =>
    calls(["Agent", { intent, ...more }]);
const done: Model = () => says("done");
const broken: Model = () => {
  throw new SyscallError("PERMISSION", "Wrong key.");
};

/** What the model was shown of the last call of its run. */
function lastResult(requests: LLMRequest[], intent: string): string {
  const own = requests.findLast((request) => request.intent === intent);
  return own?.messages.findLast(({ role }) => role === "tool")?.content ?? "";
}

async function running(h: KernelHarness, intent: string): Promise<ProcInfo> {
  const find = (): ProcInfo | undefined =>
    h.kernel.processes.listProcs().find((info) => info.intent === intent);
  await until(() => (find()?.steps ?? 0) > 0, `a run of ${intent}`);
  const info = find();
  if (!info) throw new Error("it has ended");
  return info;
}

describe("the Agent tool", () => {
  test("returns the child's answer and how it ended; the child is in the parent's receipt", async () => {
    const said: Model = (request) => says(`saw ${request.messages.length}`);
    await using h = new KernelHarness({
      model: byIntent({ top: [agent("part"), done], part: [() => calls(["Plan", { steps: ["x"] }]), said] }),
    });
    const { info, events } = await h.run("top");
    expect(info).toMatchObject({ exit_code: 0, result: "done", steps: 2, tokens_used: 60 });
    expect(info.children).toMatchObject([{ exit_code: 0, exit_reason: "completed", tokens_used: 30 }]);
    const pid = info.children[0]?.pid;
    expect(lastResult(h.requests, "top")).toBe(
      `saw 3\n\n[process ${pid}, agent none: completed, 2 steps, 30 tokens]`,
    );
    const { records } = await h.runs.steps(info.uuid);
    expect(records.map(({ action }) => action)).toEqual(["spawn", "complete"]);
    const states = events.flatMap((event) => (event.event === "child" ? [event.child] : []));
    const of = { pid, parent_uuid: info.uuid, agent: "none", intent: "part", max_steps: 99 };
    expect(states[0]).toMatchObject({ ...of, call_id: expect.any(String), state: "running", step: 0 });
    expect(states.at(-1)).toMatchObject({ ...of, state: "done", step: 2, tokens_used: 30, doing: null });
    expect((await h.runs.info(info.children[0]?.uuid ?? ""))?.parent_uuid).toBe(info.uuid);
  });

  test("fails with the child's reason and last answer, and the parent's verdict shows it", async () => {
    const half: Model = () => [
      { type: "text_delta", text: "half of it" },
      { type: "stop", reason: "max_tokens" },
    ];
    await using h = new KernelHarness({ model: byIntent({ top: [agent("part"), done], part: [half] }) });
    const { info } = await h.run("top");
    expect(info).toMatchObject({ exit_code: 1, exit_reason: "failed", result: "done" });
    expect(lastResult(h.requests, "top")).toMatch(
      /^Error DRIVER: The agent did not complete \(process 2, agent none: llm_error, 1 step.*half of it$/,
    );
    const { records } = await h.runs.steps(info.uuid);
    expect(records[0]).toMatchObject({ action: "spawn", tool_calls: [{ state: "failed" }] });
  });

  test("passes agent and model on; a failed spawn is a result like any other", async () => {
    const wishes: unknown[] = [];
    const turns = [agent("part", { agent: "coder", model: "m2" }), agent("part", { agent: "missing" }), done];
    await using h = new KernelHarness({
      model: byIntent({ top: turns, part: [done] }),
      async planChild(wish) {
        wishes.push(wish);
        if (wish.agent === "missing") throw new SyscallError("NOT_FOUND", "There is no agent missing.");
        return {};
      },
    });
    const { info } = await h.run("top");
    expect(wishes).toEqual([
      { intent: "part", agent: "coder", model: "m2" },
      { intent: "part", agent: "missing", model: undefined },
    ]);
    expect(info).toMatchObject({ exit_code: 0, children: [{ exit_code: 0 }] });
    expect(lastResult(h.requests, "top")).toBe("Error NOT_FOUND: There is no agent missing.");
  });

  test("waits beyond the deadline of other tools, and at most for the parent's time", async () => {
    const clock = new FakeClock();
    await using h = new KernelHarness({
      clock,
      model: byIntent({ top: [agent("part")], part: [silent] }),
      limits: { model_timeout: 10_000_000, model_idle_timeout: 10_000_000 },
    });
    const pid = await h.spawn("top", { timeout_ms: 1_000_000 });
    const part = await running(h, "part");
    expect(part.timeout_ms).toBe(1_000_000);
    await clock.advance(999_000);
    expect(h.kernel.processes.info(pid).state).toBe("running");
    const ended = h.follow(pid);
    await clock.advance(1_000);
    expect((await ended).info).toMatchObject({ exit_reason: "timeout", children: [{ uuid: part.uuid }] });
    expect(clock.pending).toBe(0);
  });

  test.each([
    ["killed", SIGKILL, 137, 143],
    ["terminated", SIGTERM, 143, 143],
  ] as const)(
    "is left by a parent that is %s, and its child ends with it",
    async (_, signal, code, childCode) => {
      await using h = new KernelHarness({
        model: byIntent({ top: [agent("part")], part: [agent("below")], below: [silent] }),
      });
      const pid = await h.spawn("top");
      const below = await running(h, "below");
      const ended = h.follow(pid);
      h.kernel.signals.signalTree(pid, signal);
      const { info } = await ended;
      expect(info).toMatchObject({ exit_code: code });
      expect([137, childCode]).toContain(info.children[0]?.exit_code ?? 0);
      expect(await h.runs.info(below.uuid)).toMatchObject({ state: "dead" });
      const { records } = await h.runs.steps(info.uuid);
      expect(records[0]?.tool_calls).toMatchObject([{ name: "Agent", state: "cancelled" }]);
    },
  );

  test("does not delay the suspension of its parent", async () => {
    await using h = new KernelHarness({ model: byIntent({ top: [agent("part")], part: [silent] }) });
    const pid = await h.spawn("top");
    await running(h, "part");
    expect(await h.kernel.lifecycle.suspend(pid)).toMatchObject({ code: 75 });
    await until(() => h.kernel.processes.count === 0);
  });

  test("reports a child that was killed alone", async () => {
    await using h = new KernelHarness({ model: byIntent({ top: [agent("part"), done], part: [silent] }) });
    const pid = await h.spawn("top");
    const ended = h.follow(pid);
    h.kernel.processes.kill((await running(h, "part")).pid, SIGKILL);
    expect((await ended).info).toMatchObject({ exit_reason: "failed", children: [{ exit_code: 137 }] });
    expect(lastResult(h.requests, "top")).toContain("did not complete");
  });

  test("continues when the tree is paused and resumed", async () => {
    const gate = Promise.withResolvers<void>();
    const held: Model = async () => {
      await gate.promise;
      return says("late");
    };
    await using h = new KernelHarness({ model: byIntent({ top: [agent("part"), done], part: [held] }) });
    const pid = await h.spawn("top");
    const part = await running(h, "part");
    expect(h.kernel.signals.signalTree(pid, SIGPAUSE)).toBe(2);
    gate.resolve();
    expect(h.kernel.processes.info(part.pid).is_paused).toBe(true);
    const ended = h.follow(pid);
    h.kernel.signals.signalTree(pid, SIGRESUME);
    expect((await ended).info).toMatchObject({ exit_code: 0, result: "done" });
    expect(lastResult(h.requests, "top")).toContain("late");
  });
});

describe("a refusal stops a model that would try again and again", () => {
  test("no tool is offered where no process may be spawned", async () => {
    await using h = new KernelHarness({
      model: byIntent({ top: [agent("part"), done], part: [agent("below"), done] }),
      limits: { spawn_depth: 1 },
    });
    const { info } = await h.run("top");
    const shown = (intent: string) =>
      h.requests.find((request) => request.intent === intent)?.tools?.some(({ name }) => name === "Agent");
    expect([shown("top"), shown("part")]).toEqual([true, false]);
    expect(lastResult(h.requests, "part")).toStartWith('Error NOT_FOUND: There is no tool "Agent".');
    expect(info.exit_code).toBe(0);
  });

  test.each([
    ["places", { live_children: 0 }, {}, "0 processes live below this run"],
    ["steps", {}, { max_steps: 1 }, "No steps are left"],
  ])("no %s", async (_, limits, more, why) => {
    await using h = new KernelHarness({ model: () => calls(["Agent", { intent: "part" }]), limits });
    const { info } = await h.run("top", more);
    const { records } = await h.runs.steps(info.uuid);
    expect(records[0]?.tool_calls[0]).toMatchObject({ state: "failed", error_code: "EXHAUSTED" });
    expect(records[0]?.tool_calls[0]?.error).toContain(why);
    expect(info.children).toEqual([]);
  });

  test("a model that still asks is ended by the loop guard", async () => {
    await using h = new KernelHarness({
      model: () => calls(["Agent", { intent: "part" }]),
      limits: { live_children: 0 },
    });
    const { info } = await h.run("top");
    expect(info).toMatchObject({ exit_reason: "circuit_breaker", steps: 8 });
  });

  test("children that always fail trip the loop guard too", async () => {
    const model: Model = (request) =>
      request.intent === "top" ? agent("part")(request, never) : broken(request, never);
    await using h = new KernelHarness({ model });
    expect((await h.run("top")).info).toMatchObject({ exit_reason: "circuit_breaker", steps: 8 });
  });
});

const never = new AbortController().signal;

describe("a storm", () => {
  const eight = (): ReturnType<typeof calls> => {
    const call: [string, Record<string, unknown>] = ["Agent", { intent: "more" }];
    return calls(...Array.from({ length: 8 }, () => call));
  };

  test.each([
    ["steps", {}],
    ["tokens", { context_budget: 2_000, max_steps: null }],
    ["a cost", { max_cost: 0.002, max_steps: null }],
  ])("of agents that only spawn agents ends by %s, and never exceeds it", async (what, more) => {
    let most = 0;
    let deepest = 0;
    const model: Model = () => {
      const procs = h.kernel.processes.listProcs();
      most = Math.max(most, procs.length);
      const byUuid = new Map(procs.map((info) => [info.uuid, info]));
      for (const info of procs) {
        let depth = 0;
        for (let at = info.parent_uuid; at; at = byUuid.get(at)?.parent_uuid ?? null) depth++;
        deepest = Math.max(deepest, depth);
      }
      return eight();
    };
    const price = { input: 1, output: 1, cached: 1 };
    const cheap = () => {
      const provider = { ...h.opts().provider, maxOutput: 20, price };
      h.leases--;
      return provider;
    };
    await using h: KernelHarness = new KernelHarness({
      model,
      planChild: async () => ({ provider: cheap() }),
    });
    const { info } = await h.run("more", { ...more, provider: cheap() });
    expect(info.exit_code).not.toBe(0);
    expect(deepest).toBeGreaterThan(1);
    expect(deepest).toBeLessThanOrEqual(5);
    expect(most).toBeLessThanOrEqual(17);
    expect(info.tokens_used).toBe(h.requests.length * 15);
    expect(h.requests.length).toBeGreaterThan(10);
    if (what === "steps") expect(h.requests.length).toBeLessThanOrEqual(100);
    if (what === "tokens") expect(info.tokens_used).toBeLessThanOrEqual(2_000);
    if (what === "a cost") expect(info.cost_usd ?? 1).toBeLessThanOrEqual(0.002);
    await until(() => h.kernel.processes.count === 0);
    expect(h.kernel.budget).toMatchObject({ live: 0, tokens: info.tokens_used });
  });

  test.each([1, 2, 3])(
    "of children beside each other, killed at random, leaves nothing held (seed %i)",
    async (seed) => {
      const random = seeded(seed);
      // As `rnix spawn --detach` in a shell does: it does not wait.
      const spawn = toolDevice("Spawn", async (input) => {
        const pid = await h.spawn("more", { parentPid: Number(input.parent), provider });
        return `spawned ${pid}`;
      });
      const seen = { most: 0, used: 0, kills: 0 };
      const model: Model = async (request, signal) => {
        const procs = h.kernel.processes.listProcs();
        seen.most = Math.max(seen.most, procs.length);
        seen.used = Math.max(seen.used, h.kernel.budget.tokens + h.kernel.budget.reserved.tokens);
        const any = procs[Math.floor(random() * procs.length)];
        // At least one: how often they ask before the budget is spent depends on how fast ended ones are removed.
        const killing = random() < 0.1 || (seen.kills === 0 && procs.length > 5);
        if (killing && any && any.intent !== "top") {
          h.kernel.processes.kill(any.pid, random() < 0.5 ? SIGKILL : SIGTERM);
          seen.kills++;
        }
        if (signal.aborted) throw new SyscallError("CANCELLED", "cancelled");
        const dice = random();
        const parent = any?.pid ?? 1;
        if (request.intent === "top" || dice < 0.5) {
          return calls(["Spawn", { parent }], ["Spawn", { parent }], ["Spawn", { parent }]);
        }
        if (dice < 0.6) return broken(request, signal);
        return dice < 0.8 ? says("enough") : eight();
      };
      await using h: KernelHarness = new KernelHarness({ model, devices: { "/dev/spawn": spawn } });
      const provider = { ...h.opts().provider, maxOutput: 500 };
      h.leases--;
      const { info } = await h.run("top", { context_budget: 60_000, max_steps: 100, provider });
      await until(() => h.kernel.processes.count === 0);
      expect(h.kernel.budget.reserved).toEqual({ tokens: 0, cost: 0, steps: 0, reservations: 0 });
      expect(h.kernel.budget.live).toBe(0);
      expect(seen.used).toBeLessThanOrEqual(60_000);
      expect(h.kernel.budget.steps).toBeLessThanOrEqual(100);
      expect(seen.most).toBeLessThanOrEqual(17);
      expect(seen.most).toBeGreaterThan(5);
      expect(seen.kills).toBeGreaterThan(0);
      // Whose parent was killed alone may have outlived the run it comes from.
      expect(info.tokens_used).toBeLessThanOrEqual(h.kernel.budget.tokens);
    },
  );
});

test("a supervisor has only the limits it was given, and each of its children has its own", async () => {
  await using h = new KernelHarness({ model: silent, limits: { live_children: 1, spawn_depth: 1 } });
  const stopped: Task = (proc) =>
    new Promise((resolve) => {
      const end = (): void =>
        resolve({ kind: "stopped", status: proc.stopped ?? { code: 1, reason: "failed" } });
      proc.signal.addEventListener("abort", end, { once: true });
    });
  const opts = { ...h.opts(), provider: null };
  const top = await h.kernel.processes.spawnTask("supervisor", stopped, "watch", null, opts);
  expect(h.kernel.processes.info(top)).toMatchObject({
    max_steps: null,
    timeout_ms: null,
    context_budget: null,
  });
  for (const intent of ["one", "two", "three"]) {
    const parentPid = await h.spawn(intent, { parentPid: top });
    expect(h.kernel.processes.info(parentPid)).toMatchObject({ max_steps: 100, timeout_ms: 3_600_000 });
    const below = await h.spawn("below", { parentPid });
    for (const pid of [parentPid, below]) {
      const refused = h.spawn("more", { parentPid: pid }).catch((error: unknown) => error);
      expect(await refused).toMatchObject({ code: "EXHAUSTED", syscall: "Spawn" });
    }
  }
  expect(h.kernel.processes.count).toBe(7);
});

describe("children that no process waits for", () => {
  /** Silent until it may answer. */
  function patient(): { model: Model; release(): void } {
    let released = false;
    const model: Model = (request, signal) => (released ? says("done") : silent(request, signal));
    const release = (): void => {
      released = true;
    };
    return { model, release };
  }

  async function pair(h: KernelHarness): Promise<{ top: ProcInfo; part: ProcInfo }> {
    const pid = await h.spawn("top");
    await h.spawn("part", { parentPid: pid });
    await until(() => h.requests.length === 2);
    const [top, part] = h.kernel.processes.infos();
    if (!top || !part) throw new Error("they are not there");
    return { top, part };
  }

  test("resume with their parent, below it", async () => {
    const { model, release } = patient();
    await using h = new KernelHarness({ model });
    const { top, part } = await pair(h);
    await h.kernel.lifecycle.suspend(top.pid);
    await until(() => h.kernel.processes.count === 0, "the end of all");
    const again = await h.kernel.lifecycle.resume(top.uuid, null, h.opts());
    const [, child] = h.kernel.processes.infos();
    expect(child).toMatchObject({ uuid: part.uuid, ppid: again.pid });
    release();
    await h.kernel.lifecycle.suspend(child?.pid ?? 0);
    await h.kernel.lifecycle.suspend(again.pid);
  });

  test("stay suspended when a person has suspended them", async () => {
    const { model } = patient();
    await using h = new KernelHarness({ model });
    const { top, part } = await pair(h);
    await h.kernel.lifecycle.suspend(part.pid);
    await h.kernel.lifecycle.suspend(top.pid);
    await until(() => h.kernel.processes.count === 0, "the end of all");
    const again = await h.kernel.lifecycle.resume(top.uuid, null, h.opts());
    expect(h.kernel.processes.infos().map(({ uuid }) => uuid)).toEqual([top.uuid]);
    await h.kernel.lifecycle.suspend(again.pid);
  });
});
