import { describe, expect, setDefaultTimeout, test } from "bun:test";
import type { ProcInfo } from "../../../src/kernel/types.ts";
import { orAborted, realClock, sleep } from "../../../src/lib/clock.ts";
import { SIGTERM } from "../../../src/lib/signals.ts";
import { SyscallError } from "../../../src/plugin/index.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { calls, KernelHarness, type Model, says, silent } from "../../support/kernel.ts";
import { openJournal } from "../../support/open-journal.ts";
import { crashInto } from "../../support/sealed-record.ts";
import { seeded } from "../../support/seeded.ts";
import { until } from "../../support/until.ts";

// Each suspension and resume waits for the disk, which others may use too.
setDefaultTimeout(120_000);

/** A parent that asks for one child per intent in one answer, and repeats all results in order. */
function family(children: readonly string[], child: Model): Model {
  return (request, signal) => {
    if (request.intent !== "parent") return child(request, signal);
    const results = request.messages.filter(({ role }) => role === "tool").map(({ content }) => content);
    if (results.length > 0) return says(results.map((text) => text.split("\n")[0]).join(","));
    return calls(...children.map((intent): [string, Record<string, unknown>] => ["Agent", { intent }]));
  };
}

/** Children that answer with their intent, each when it is released. */
class Held {
  readonly #gates = new Map<string, PromiseWithResolvers<void>>();
  /** Intents of the children that have asked, in order. */
  readonly asked: string[] = [];

  readonly model: Model = async ({ intent }, signal) => {
    this.asked.push(intent);
    const gate = this.#gate(intent);
    await orAborted(gate.promise, signal);
    return says(intent);
  };

  release(...intents: string[]): void {
    for (const intent of intents) this.#gate(intent).resolve();
  }

  #gate(intent: string): PromiseWithResolvers<void> {
    const gate = this.#gates.get(intent) ?? Promise.withResolvers<void>();
    this.#gates.set(intent, gate);
    return gate;
  }
}

const HOUR = 3_600_000;
const four = ["one", "two", "three", "four"];

function live(h: KernelHarness): string[] {
  return h.kernel.processes.infos().flatMap(({ intent }) => (intent === "parent" ? [] : [intent]));
}

async function childrenOnDisk(h: KernelHarness): Promise<ProcInfo[]> {
  return (await h.runs.list()).filter(({ intent }) => intent !== "parent");
}

describe("calls of Agent in one answer", () => {
  test("run in parallel, and their results are in the order of the calls", async () => {
    const held = new Held();
    await using h = new KernelHarness({ model: family(four, held.model) });
    const pid = await h.spawn("parent");
    await until(() => held.asked.length === 4, "all four children ask their model");
    expect(live(h)).toEqual(four);
    for (const intent of four.toReversed()) {
      held.release(intent);
      await until(() => !live(h).includes(intent));
    }
    const { info } = await h.follow(pid);
    expect(info).toMatchObject({ exit_code: 0, result: "one,two,three,four", steps: 2, tokens_used: 90 });
    const infos = await childrenOnDisk(h);
    const pids = four.map((intent) => infos.find((child) => child.intent === intent)?.pid ?? 0);
    expect(pids).toEqual(pids.toSorted((a, b) => a - b));
    const [step] = (await h.runs.steps(info.uuid)).records;
    expect(step?.tool_calls.map(({ input }) => input.intent)).toEqual(four);
  });

  test("at most live_children at a time: the others wait, and no call is refused", async () => {
    const held = new Held();
    await using h = new KernelHarness({ model: family(four, held.model), limits: { live_children: 2 } });
    const pid = await h.spawn("parent");
    for (const [at, intent] of four.entries()) {
      await until(() => held.asked.length === Math.min(4, at + 2));
      expect(live(h)).toEqual(four.slice(at, at + 2));
      held.release(intent);
      await until(() => !live(h).includes(intent));
    }
    const { info } = await h.follow(pid);
    expect(info).toMatchObject({ exit_code: 0, result: "one,two,three,four", children: { length: 4 } });
  });

  test("at most live_processes of the kernel, too", async () => {
    const held = new Held();
    await using h = new KernelHarness({ model: family(four, held.model) });
    h.kernel.budget.limits.children = 3;
    const pid = await h.spawn("parent");
    await until(() => held.asked.length === 2);
    expect(live(h)).toEqual(["one", "two"]);
    held.release(...four);
    expect((await h.follow(pid)).info).toMatchObject({ exit_code: 0, result: "one,two,three,four" });
  });

  test("other calls between them stay in order", async () => {
    const held = new Held();
    const model: Model = (request, signal) => {
      if (request.intent !== "parent") return held.model(request, signal);
      if (request.messages.some(({ role }) => role === "tool")) return says("done");
      const plan: [string, Record<string, unknown>] = ["Plan", { steps: ["x"] }];
      return calls(["Agent", { intent: "one" }], ["Agent", { intent: "two" }], plan, [
        "Agent",
        { intent: "three" },
      ]);
    };
    await using h = new KernelHarness({ model });
    const pid = await h.spawn("parent");
    await until(() => held.asked.length === 2);
    held.release("two");
    await until(() => live(h).length === 1);
    expect(held.asked).toEqual(["one", "two"]);
    held.release("one", "three");
    expect((await h.follow(pid)).info).toMatchObject({ exit_code: 0, tool_calls: 4 });
  });

  test("one that is refused or fails does not affect the others", async () => {
    const child: Model = ({ intent }) => {
      if (intent === "two") throw new SyscallError("PERMISSION", "Wrong key.");
      return says(intent);
    };
    await using h = new KernelHarness({
      model: family(four, child),
      planChild: async ({ intent }) => {
        if (intent === "three") throw new SyscallError("NOT_FOUND", "There is no agent three.");
        return {};
      },
    });
    const { info } = await h.run("parent");
    expect(info.result).toMatch(/^one,Error DRIVER: .*,Error NOT_FOUND: There is no agent three\.,four$/);
    expect(info).toMatchObject({ exit_reason: "failed", children: { length: 3 } });
    const [step] = (await h.runs.steps(info.uuid)).records;
    expect(step?.tool_calls.map(({ state }) => state)).toEqual(["done", "failed", "failed", "done"]);
  });

  test("together stay within the parent's budget", async () => {
    const child: Model = () => calls(["Plan", { steps: ["x"] }]);
    const price = { input: 1, output: 1, cached: 1 };
    const cheap = (): ReturnType<KernelHarness["opts"]>["provider"] => {
      const { provider } = h.opts();
      h.leases--;
      return { ...provider, maxOutput: 20, price };
    };
    await using h: KernelHarness = new KernelHarness({
      model: family(four, child),
      planChild: async () => ({ provider: cheap() }),
    });
    const { info } = await h.run("parent", { context_budget: 1_000, provider: cheap() });
    expect(info.exit_code).not.toBe(0);
    expect(info.tokens_used).toBe(h.requests.length * 15);
    expect(info.tokens_used).toBeLessThanOrEqual(1_000);
    expect(info.children.map(({ exit_reason }) => exit_reason)).toEqual(Array(4).fill("budget_exceeded"));
    await until(() => h.kernel.processes.count === 0);
    expect(h.kernel.budget).toMatchObject({ live: 0, tokens: info.tokens_used });
  });

  test("end with a parent that is killed, also while they wait for their turn", async () => {
    await using h = new KernelHarness({ model: family(four, silent), limits: { live_children: 2 } });
    const pid = await h.spawn("parent");
    await until(() => live(h).length === 2);
    h.kernel.signals.signalTree(pid, SIGTERM);
    const { info } = await h.follow(pid);
    expect(info).toMatchObject({ exit_code: 143, children: { length: 2 } });
    const [step] = (await h.runs.steps(info.uuid)).records;
    expect(step?.tool_calls.map(({ state, error }) => (state === "cancelled" ? state : error))).toEqual(
      Array(4).fill("cancelled"),
    );
    await until(() => h.kernel.processes.count === 0);
  });
});

describe("parallel children of a run that is interrupted", () => {
  test("suspended: running children resume, waiting ones are spawned, ended ones are not asked again", async () => {
    const held = new Held();
    await using h = new KernelHarness({ model: family(four, held.model), limits: { live_children: 2 } });
    const pid = await h.spawn("parent");
    held.release("one");
    await until(() => held.asked.includes("three"));
    expect(live(h)).toEqual(["two", "three"]);
    const { uuid } = h.kernel.processes.info(pid);
    await h.kernel.lifecycle.suspend(pid);
    await until(() => h.kernel.processes.count === 0);
    const { entries } = await openJournal(h.runs, uuid);
    expect(entries.filter(({ t }) => t === "waiting")).toHaveLength(4);
    expect(entries.filter(({ t }) => t === "call_end")).toHaveLength(1);

    const released = h.requests.length;
    held.release(...four);
    const { info } = await h.resumed(uuid);
    expect(info.result).toBe("one,two,three,four");
    expect(
      h.requests
        .slice(released)
        .map(({ intent }) => intent)
        .toSorted(),
    ).toEqual(["four", "parent", "three", "two"]);
    expect(await childrenOnDisk(h)).toHaveLength(4);
  });

  test("one that is suspended by itself suspends the parent and the others; a resume completes all", async () => {
    let limited = true;
    const child: Model = (request, signal) => {
      if (request.intent === "two" && limited) {
        throw new SyscallError("EXHAUSTED", "too many requests", { retryAfterMs: HOUR });
      }
      return limited && request.intent === "three" ? silent(request, signal) : says(request.intent);
    };
    const clock = new FakeClock();
    await using h = new KernelHarness({ model: family(four, child), clock });
    const { info } = await h.run("parent");
    // The limit holds for the key: a child that asks after "two" was refused may be suspended before it.
    const asleep = (await childrenOnDisk(h)).filter(({ state }) => state === "suspended");
    expect(asleep.map(({ intent }) => intent)).toContain("two");
    expect(info).toMatchObject({ exit_code: 75, suspended: { wake: { on: "child" } } });
    const { wake } = info.suspended ?? {};
    expect(asleep.map(({ uuid }) => uuid)).toContain(wake?.on === "child" ? wake.uuid : "");
    limited = false;
    await clock.advance(HOUR);
    expect((await h.resumed(info.uuid)).info).toMatchObject({ exit_code: 0, result: "one,two,three,four" });
    expect(await childrenOnDisk(h)).toHaveLength(4);
  });

  // What kill -9 leaves at a random moment, up to three times in a row, with room for two children.
  test.each(Array.from({ length: 12 }, (_, seed) => seed + 1))("killed at random (seed %i)", async (seed) => {
    const random = seeded(seed);
    const asked: string[] = [];
    const slow: Model = async ({ intent }, signal) => {
      asked.push(intent);
      await sleep(realClock, random() * 30, signal);
      return says(intent);
    };
    const model = family(four, slow);
    const limits = { live_children: 2 };
    const kernels = [new KernelHarness({ model, limits })];
    try {
      let [last] = kernels as [KernelHarness];
      let pid = await last.spawn("parent");
      const { uuid } = last.kernel.processes.info(pid);
      for (let crash = 0; crash < 3; crash++) {
        await new Promise((resolve) => setTimeout(resolve, random() * 60));
        const later = new KernelHarness({ model, limits });
        kernels.push(later);
        crashInto(later, last);
        last = later;
        const record = await later.runs.info(uuid);
        if (record?.ended_at_ms != null) break;
        pid = (await later.kernel.lifecycle.resume(uuid, null, later.opts())).pid;
      }
      const info = last.kernel.processes.infos().some((one) => one.uuid === uuid)
        ? (await last.follow(pid)).info
        : await last.runs.info(uuid);
      expect(info).toMatchObject({ exit_code: 0, result: "one,two,three,four", tokens_used: 90 });
      const children = await childrenOnDisk(last);
      expect(children.map(({ intent }) => intent).toSorted()).toEqual(four.toSorted());
      expect(children.every(({ exit_code, steps }) => exit_code === 0 && steps === 1)).toBe(true);
      expect(info?.children).toHaveLength(4);
    } finally {
      for (const kernel of kernels) await kernel[Symbol.asyncDispose]();
    }
  });
});
