import { describe, expect, setDefaultTimeout, test } from "bun:test";
import type { ChildSpec } from "../../../src/kernel/supervisor/spec.ts";
import { SIGPAUSE, SIGTERM } from "../../../src/lib/signals.ts";
import type { LLMEvent } from "../../../src/plugin/index.ts";
import { calls, KernelHarness, type Model, says, script, silent, toolDevice } from "../../support/kernel.ts";
import { openJournal } from "../../support/open-journal.ts";
import { crashInto } from "../../support/sealed-record.ts";
import { until } from "../../support/until.ts";

// Each suspension and resume waits for the disk, which others may use too.
setDefaultTimeout(120_000);

const LONG_MS = 60_000;

/** A tool that ends when it is released, and says what was done with it. */
class Work {
  readonly done: string[] = [];
  readonly #held = new Map<string, () => void>();
  readonly device = toolDevice("Work", async ({ what }, signal) => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#held.set(String(what), resolve);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    await promise;
    this.done.push(String(what));
    return `${what} is done`;
  });

  async begun(what: string): Promise<void> {
    await until(() => this.#held.has(what), `the begin of ${what}`);
  }

  finish(what: string): void {
    this.#held.get(what)?.();
  }

  has(what: string): boolean {
    return this.#held.has(what);
  }
}

function work(...what: string[]): LLMEvent[] {
  return calls(...what.map((one): [string, Record<string, unknown>] => ["Work", { what: one }]));
}

function harness(model: Model, tool = new Work()): { h: KernelHarness; tool: Work } {
  return { h: new KernelHarness({ model, devices: { "/dev/work": tool.device } }), tool };
}

/** A drain that waits for one call, and an answer that comes for another run meanwhile. */
async function answeredWhileItDrains(comes: ReturnType<typeof says>) {
  const answer = Promise.withResolvers<void>();
  const { h, tool } = harness(async ({ intent }) => {
    if (intent === "hold") return work("held");
    await answer.promise;
    return comes;
  });
  const { uuid } = h.kernel.processes.info(await h.spawn("go"));
  await h.spawn("hold");
  await tool.begun("held");
  const ended = h.kernel.shutdown({ drainMs: LONG_MS });
  answer.resolve();
  return { h, tool, uuid, ended };
}

describe("a shutdown that drains", () => {
  test("lets the call under way finish; the call behind it is made once the run resumes", async () => {
    const model = script(work("a", "b"), says("all done"));
    const { h, tool } = harness(model);
    await using _ = h;
    const { uuid } = h.kernel.processes.info(await h.spawn("go"));
    await tool.begun("a");
    const ended = h.kernel.shutdown({ cause: "restart", drainMs: LONG_MS });
    tool.finish("a");
    await ended;
    expect(tool.done).toEqual(["a"]);
    expect(tool.has("b")).toBe(false);
    expect(await h.recordOf(uuid)).toMatchObject({ state: "suspended", suspended: { cause: "restart" } });
    const { entries } = await openJournal(h.runs, uuid);
    expect(entries.map(({ t }) => t)).toEqual(["answer", "call_start", "call_end"]);

    const { h: next } = harness(model, tool);
    await using __ = next;
    crashInto(next, h);
    const again = await next.kernel.lifecycle.resume(uuid, null, next.opts());
    await tool.begun("b");
    tool.finish("b");
    const { info } = await next.follow(again.pid);
    expect(info).toMatchObject({ exit_reason: "completed", result: "all done", tool_calls: 2 });
    expect(tool.done).toEqual(["a", "b"]);
    const [step] = (await next.runs.steps(uuid)).records;
    expect(step?.tool_calls.map(({ state, result }) => [state, result])).toEqual([
      ["done", "a is done"],
      ["done", "b is done"],
    ]);
  });

  test("calls no model after it: the step is recorded, and the next does not begin", async () => {
    const { h, tool } = harness(script(work("a"), says("never said")));
    await using _ = h;
    const { uuid } = h.kernel.processes.info(await h.spawn("go"));
    await tool.begun("a");
    const ended = h.kernel.shutdown({ drainMs: LONG_MS });
    tool.finish("a");
    await ended;
    expect(h.requests).toHaveLength(1);
    expect(await h.recordOf(uuid)).toMatchObject({ state: "suspended", steps: 1 });
    expect((await openJournal(h.runs, uuid)).entries).toEqual([]);
  });

  test("cuts off what takes longer, and notifies its model", async () => {
    const { h, tool } = harness(script(work("a", "b")));
    await using _ = h;
    const { uuid } = h.kernel.processes.info(await h.spawn("go"));
    await tool.begun("a");
    await h.kernel.shutdown({ drainMs: 30 });
    expect(tool.done).toEqual([]);
    const [step] = (await h.runs.steps(uuid)).records;
    expect(step?.tool_calls.map(({ state }) => state)).toEqual(["cancelled", "cancelled"]);
  });

  test("does not wait for a model's answer, or for a paused process", async () => {
    const { h, tool } = harness((request, signal) =>
      request.intent === "think" ? silent(request, signal) : work("a"),
    );
    await using _ = h;
    await h.spawn("think");
    const paused = await h.spawn("go");
    await tool.begun("a");
    h.kernel.processes.kill(paused, SIGPAUSE);
    await h.kernel.shutdown({ drainMs: LONG_MS });
    expect(h.kernel.processes.count).toBe(0);
  });

  test("an answer that comes during the drain is recorded, and its calls are made later", async () => {
    const { h, tool, uuid, ended } = await answeredWhileItDrains(work("later"));
    await using _ = h;
    await until(async () => (await openJournal(h.runs, uuid)).entries.length > 0, "the answer's record");
    tool.finish("held");
    await ended;
    expect(tool.has("later")).toBe(false);
    expect(await h.recordOf(uuid)).toMatchObject({ state: "suspended", tool_calls: 0 });
  });

  test("a run that reaches its end during the drain has completed", async () => {
    const { h, tool, uuid, ended } = await answeredWhileItDrains(says("ready"));
    await using _ = h;
    await until(async () => (await h.recordOf(uuid)).exit_reason !== null, "its end");
    tool.finish("held");
    await ended;
    expect(await h.recordOf(uuid)).toMatchObject({ exit_reason: "completed", result: "ready" });
  });

  test("a parent that waits for its child delays nothing; the child's call is waited for", async () => {
    const { h, tool } = harness(({ intent }) =>
      intent === "top" ? calls(["Agent", { intent: "part" }]) : work("a"),
    );
    await using _ = h;
    await h.spawn("top");
    await tool.begun("a");
    const ended = h.kernel.shutdown({ drainMs: LONG_MS });
    tool.finish("a");
    await ended;
    expect(tool.done).toEqual(["a"]);
    const infos = await h.runs.list();
    expect(infos.map(({ state }) => state)).toEqual(["suspended", "suspended"]);
  });

  test("a child that is about to be spawned is spawned once, when its parent resumes", async () => {
    const planned = Promise.withResolvers<void>();
    let planning = 0;
    const model: Model = ({ intent, messages }) => {
      if (intent === "part") return says("done");
      const answered = messages.findLast(({ role }) => role === "tool");
      return answered ? says(answered.content) : calls(["Agent", { intent: "part" }]);
    };
    await using h = new KernelHarness({
      model,
      planChild: async () => {
        planning++;
        await planned.promise;
        return {};
      },
    });
    const { uuid } = h.kernel.processes.info(await h.spawn("top"));
    await until(() => planning === 1, "its child");
    const ended = h.kernel.shutdown({ cause: "restart", drainMs: LONG_MS });
    planned.resolve();
    await ended;
    expect((await h.runs.list()).map(({ intent, state }) => [intent, state])).toEqual([["top", "suspended"]]);
    await using next = new KernelHarness({ model });
    crashInto(next, h);
    const { info } = await next.resumed(uuid);
    expect(info).toMatchObject({ exit_reason: "completed", children: [{ exit_code: 0 }] });
    expect(info.result).toStartWith("done");
    expect((await next.runs.list()).map(({ intent }) => intent)).toEqual(["top", "part"]);
  });

  test("a child that is about to be resumed is so when its parent resumes, and is no second one", async () => {
    let answers = false;
    const model: Model = (request, signal) => {
      if (request.intent === "hold") return work("held");
      if (request.intent === "part") return answers ? says("done") : silent(request, signal);
      const answered = request.messages.findLast(({ role }) => role === "tool");
      return answered ? says(answered.content) : calls(["Agent", { intent: "part" }]);
    };
    const taken = Promise.withResolvers<void>();
    let taking = 0;
    const tool = new Work();
    await using h = new KernelHarness({
      model,
      devices: { "/dev/work": tool.device },
      beforeChildResume: () => {
        taking++;
        return taken.promise;
      },
    });
    const top = await h.spawn("top");
    const { uuid } = h.kernel.processes.info(top);
    await until(() => h.requests.length === 2, "the child's model call");
    await h.kernel.lifecycle.suspend(top);
    await until(() => h.kernel.processes.count === 0, "their end");
    await h.spawn("hold");
    await tool.begun("held");
    const again = await h.kernel.lifecycle.resume(uuid, null, h.opts());
    const refused: string[] = [];
    void (async () => {
      for await (const { syscall, error } of h.kernel.attachDebug(again.pid))
        if (error) refused.push(syscall);
    })();
    await until(() => taking === 1, "the child's resume");
    const ended = h.kernel.shutdown({ cause: "restart", drainMs: LONG_MS });
    taken.resolve();
    // The kernel takes no new process: the model gets no error, and the call waits on.
    await until(() => refused.includes("Resume"), "the refusal");
    tool.finish("held");
    await ended;
    expect((await openJournal(h.runs, uuid)).entries.map(({ t }) => t)).toEqual([
      "answer",
      "call_start",
      "waiting",
      "call_start",
    ]);
    answers = true;
    await using next = new KernelHarness({ model });
    crashInto(next, h);
    const { info } = await next.resumed(uuid);
    expect(info).toMatchObject({ exit_reason: "completed", children: [{ exit_code: 0 }] });
    expect(info.result).toStartWith("done");
    expect((await next.runs.list()).filter(({ intent }) => intent === "part")).toHaveLength(1);
  });

  test("a supervisor restarts nothing during the drain, and loses no restart by it", async () => {
    const answer = Promise.withResolvers<void>();
    const { h, tool } = harness(async ({ intent }) => {
      if (intent === "hold") return work("held");
      await answer.promise;
      return says("done");
    });
    await using _ = h;
    const child = (id: string): ChildSpec => ({
      id,
      start: { kind: "agent", plan: async () => ({ intent: id, agent: null, opts: h.opts() }) },
    });
    const children = [child("hold"), child("quick")];
    const spec = { name: "top", strategy: "one_for_one", intensity: 0, periodMs: 1000, children } as const;
    const supervisor = await h.kernel.supervisors.spawnSupervisor({ ...spec, opts: async () => h.opts() });
    const [held, quick] = h.kernel.supervisors.supervisorChildren(supervisor);
    await tool.begun("held");
    const ended = h.kernel.shutdown({ cause: "restart", drainMs: LONG_MS });
    answer.resolve();
    await until(async () => (await h.recordOf(quick?.uuid ?? "")).exit_reason === "completed", "its end");
    tool.finish("held");
    const [top] = h.kernel.processes.infos().filter(({ kind }) => kind === "supervisor");
    await ended;
    expect(h.requests).toHaveLength(2);
    expect(await h.recordOf(held?.uuid ?? "")).toMatchObject({ exit_reason: "suspended" });
    // Asked to end with the rest, not one restart too many.
    expect(await h.recordOf(top?.uuid ?? "")).toMatchObject({ exit_reason: "terminated" });
  });

  test("nothing new is spawned during the drain, a kill counts at once, and a shutdown with now makes it short", async () => {
    const { h, tool } = harness(({ intent }) => work(intent));
    await using _ = h;
    const [one, two] = [await h.spawn("one"), await h.spawn("two")];
    await Promise.all([tool.begun("one"), tool.begun("two")]);
    const ended = h.kernel.shutdown({ drainMs: LONG_MS });
    await expect(h.spawn("three")).rejects.toMatchObject({ code: "UNAVAILABLE" });
    h.kernel.processes.kill(one, SIGTERM);
    expect((await h.kernel.processes.wait(one)).reason).toBe("terminated");
    const second = h.kernel.processes.wait(two);
    await h.kernel.shutdown({ now: true });
    expect((await second).reason).toBe("killed");
    await ended;
  });
});
