import { describe, expect, test } from "bun:test";
import type { Strategy } from "../../../src/kernel/supervisor/spec.ts";
import type { PID, SpawnOpts } from "../../../src/kernel/types.ts";
import { SIGKILL, SIGPAUSE, SIGRESUME, SIGTERM, type Signal } from "../../../src/lib/signals.ts";
import { failure } from "../../support/failure.ts";
import { settled } from "../../support/fake-clock.ts";
import { Supervised } from "../../support/supervised.ts";
import { until } from "../../support/until.ts";

/** What it did, of its own record. */
async function deeds(s: Supervised, uuid: string): Promise<string[]> {
  // All: a test that waits for a child's state asks again and again, and each time is recorded.
  const { records } = await s.h.runs.events(uuid, { limit: Number.MAX_SAFE_INTEGER });
  return records
    .filter(({ syscall }) => syscall.startsWith("Supervisor") && syscall !== "SupervisorChildren")
    .map(({ syscall, args, result, error }) =>
      [syscall.slice("Supervisor".length), args.child ?? args.children, error ?? result]
        .flat()
        .filter((part) => part !== undefined)
        .join(" "),
    );
}

/** Ignores TERM, so that only KILL ends it. */
function harden(s: Supervised, pid: PID): void {
  s.h.kernel.signals.sigHandle(pid, SIGTERM, () => {});
}

async function waits(s: Supervised, pid: PID, id: string): Promise<number> {
  await until(() => s.child(pid, id).restartInMs !== null, `${id} waits`);
  return s.child(pid, id).restartInMs ?? 0;
}

async function runs(s: Supervised, pid: PID, id: string): Promise<PID> {
  await until(() => s.child(pid, id).state === "running", `${id} runs`);
  return s.pid(pid, id);
}

describe("a supervisor", () => {
  test("has its own process kind, and is its children's parent", async () => {
    await using s = new Supervised();
    const pid = await s.spawn(s.spec("one_for_one", [s.agent("a"), s.agent("b"), s.agent("c")]));
    expect(s.starts).toEqual(["a", "b", "c"]);
    expect(s.h.kernel.processes.info(pid)).toMatchObject({
      kind: "supervisor",
      agent: "supervisor",
      intent: "top",
      state: "running",
      max_steps: null,
    });
    for (const child of s.children(pid)) {
      expect(s.h.kernel.processes.info(child.pid ?? 0)).toMatchObject({ ppid: pid, kind: "agent" });
    }
  });

  for (const [name, wrong] of [
    ["no child", { children: [] }],
    ["two children of one id", { children: ["a", "a"] }],
    ["a period of 0", { children: ["a"], periodMs: 0 }],
    ["an intensity below 0", { children: ["a"], intensity: -1 }],
    ["half a restart", { children: ["a"], intensity: 0.5 }],
    ["no name", { children: ["a"], name: "" }],
  ] as const) {
    test(`with ${name} is INVALID, and nothing starts`, async () => {
      await using s = new Supervised();
      const children = wrong.children.map((id) => s.agent(id));
      const spec = s.spec("one_for_one", children, { ...wrong, children: undefined } as object);
      expect(await failure(s.spawn({ ...spec, children }))).toMatchObject({ code: "INVALID" });
      expect(s.starts).toEqual([]);
    });
  }

  test("whose agent may take for ever to end is INVALID", async () => {
    await using s = new Supervised();
    const spawned = s.spawn(s.spec("one_for_one", [s.agent("a", { shutdown: "infinity" })]));
    expect(await failure(spawned)).toMatchObject({ code: "INVALID" });
  });

  test("whose second child does not start ends the first, and fails with the reason", async () => {
    await using s = new Supervised();
    s.broken.set("b", 1);
    const error = await failure(s.spawn(s.spec("one_for_one", [s.agent("a"), s.agent("b"), s.agent("c")])));
    expect(error).toMatchObject({ code: "NOT_FOUND" });
    expect(error.message).toContain("its child b did not start: b can't be planned");
    expect(s.starts).toEqual(["a", "b"]);
    expect(s.h.kernel.processes.count).toBe(0);
    const [supervisor] = (await s.h.runs.list()).filter(({ kind }) => kind === "supervisor");
    expect(supervisor).toMatchObject({ exit_code: 1, exit_reason: "failed" });
    expect(await deeds(s, supervisor?.uuid ?? "")).toEqual([
      expect.stringMatching(/^Start a \d+$/),
      expect.stringContaining("Start b Supervisor top: its child b did not start"),
      "Stop a terminated",
    ]);
  });

  test("that is asked to stop while a child is being planned does not wait for the plan", async () => {
    await using s = new Supervised();
    const planning = Promise.withResolvers<AbortSignal>();
    const slow = s.agent("slow");
    const start = {
      kind: "agent" as const,
      plan: (signal: AbortSignal): Promise<never> => {
        planning.resolve(signal);
        return new Promise(() => {});
      },
    };
    const spawned = s.spawn(s.spec("one_for_one", [s.agent("a"), { ...slow, start }]));
    const signal = await planning.promise;
    s.h.kernel.signals.signal(1, SIGTERM);
    expect(await failure(spawned)).toMatchObject({ code: "CANCELLED" });
    expect(signal.aborted).toBe(true);
    expect(s.h.kernel.processes.count).toBe(0);
  });

  test("gives up a child whose planning takes too long, and releases what comes too late", async () => {
    await using s = new Supervised();
    const planning = Promise.withResolvers<void>();
    const late = Promise.withResolvers<{ intent: string; agent: null; opts: SpawnOpts }>();
    const plan = () => {
      planning.resolve();
      return late.promise;
    };
    const refused = failure(s.spawn(s.spec("one_for_one", [{ id: "slow", start: { kind: "agent", plan } }])));
    await planning.promise;
    await s.clock.advance(60_000);
    expect(await refused).toMatchObject({ code: "TIMEOUT" });
    expect(s.h.leases).toBe(0);
    late.resolve({ intent: "late", agent: null, opts: s.h.opts() });
    await until(() => s.h.leases === 0);
  });
});

describe("the end of a supervisor", () => {
  for (const [name, end, code, ask] of [
    ["TERM", (s: Supervised, pid: PID) => void s.h.kernel.signals.signal(pid, SIGTERM), 143, "terminated"],
    ["KILL", (s: Supervised, pid: PID) => void s.h.kernel.signals.signal(pid, SIGKILL), 137, "terminated"],
    [
      "KILL to it alone",
      (s: Supervised, pid: PID) => s.h.kernel.processes.kill(pid, SIGKILL),
      137,
      "terminated",
    ],
    [
      "StopSupervisor",
      (s: Supervised, pid: PID) => void s.h.kernel.supervisors.stopSupervisor(pid),
      143,
      "terminated",
    ],
    ["suspend", (s: Supervised, pid: PID) => void s.h.kernel.lifecycle.suspend(pid), 143, "suspended"],
    ["the kernel's shutdown", (s: Supervised) => void s.h.kernel.shutdown(), 143, "suspended"],
  ] as const) {
    test(`by ${name} ends its children first, in reverse`, async () => {
      await using s = new Supervised();
      const spec = s.spec("one_for_one", [s.agent("a"), s.agent("b"), s.agent("c")]);
      const pid = await s.spawn(spec);
      const { uuid } = s.h.kernel.processes.info(pid);
      const done = s.h.kernel.processes.wait(pid);
      end(s, pid);
      expect(await done).toMatchObject({ code });
      expect(s.h.kernel.processes.count).toBe(0);
      const stops = (await deeds(s, uuid)).filter((deed) => deed.startsWith("Stop"));
      expect(stops.map((deed) => deed.split(" ")[1])).toEqual(["c", "b", "a"]);
      const killed = code === 137 ? /terminated|killed/ : new RegExp(`${ask}$`);
      for (const deed of stops) expect(deed).toMatch(killed);
    });
  }

  test("waits for a child up to its shutdown time, then kills it", async () => {
    await using s = new Supervised();
    const pid = await s.spawn(s.spec("one_for_one", [s.agent("a"), s.agent("b", { shutdown: 3_000 })]));
    const { uuid } = s.h.kernel.processes.info(pid);
    harden(s, s.pid(pid, "b"));
    const b = s.pid(pid, "b");
    const done = s.h.kernel.processes.wait(pid);
    const stopped = s.h.kernel.supervisors.stopSupervisor(pid);
    await until(() => s.clock.waits.includes(3_000));
    await s.clock.advance(2_999);
    expect(s.h.kernel.processes.info(b).state).toBe("running");
    expect(s.h.kernel.processes.info(s.pid(pid, "a")).state).toBe("running");
    await s.clock.advance(1);
    expect(await stopped).toMatchObject({ code: 143, reason: "terminated" });
    await done;
    expect(await deeds(s, uuid)).toContain("Stop b killed, it had to be killed");
    expect(await deeds(s, uuid)).toContain("Stop a terminated");
  });

  test("sends no TERM to a child of brutal_kill", async () => {
    await using s = new Supervised();
    const pid = await s.spawn(s.spec("one_for_one", [s.agent("a", { shutdown: "brutal_kill" })]));
    harden(s, s.pid(pid, "a"));
    expect(await s.h.kernel.supervisors.stopSupervisor(pid)).toMatchObject({ code: 143 });
  });

  test("is not waited for after a KILL that follows the TERM", async () => {
    await using s = new Supervised();
    const pid = await s.spawn(s.spec("one_for_one", [s.agent("a"), s.agent("b")]));
    for (const { pid: child } of s.children(pid)) harden(s, child ?? 0);
    const done = s.h.kernel.processes.wait(pid);
    s.h.kernel.signals.signal(pid, SIGTERM);
    await until(() => s.clock.waits.includes(10_000));
    s.h.kernel.signals.signal(pid, SIGKILL);
    expect(await done).toMatchObject({ code: 143 });
    expect(s.h.kernel.processes.count).toBe(0);
  });

  test("cancels pending restarts, and refuses callers that asked for one", async () => {
    await using s = new Supervised();
    const pid = await s.spawn(s.spec("one_for_one", [s.agent("a"), s.agent("b")]));
    await s.fail("a");
    await waits(s, pid, "a");
    harden(s, s.pid(pid, "b"));
    const stopped = s.h.kernel.supervisors.stopSupervisor(pid);
    await until(() => s.clock.waits.includes(10_000));
    expect(await failure(s.h.kernel.supervisors.restartChild(pid, "a"))).toMatchObject({ code: "CLOSED" });
    await s.clock.advance(10_000);
    await stopped;
    expect(s.starts).toEqual(["a", "b"]);
  });

  test("comes by itself when all children are done for good", async () => {
    await using s = new Supervised();
    const children = [s.agent("a", { restart: "transient" }), s.agent("b", { restart: "temporary" })];
    const pid = await s.spawn(s.spec("one_for_all", children));
    const done = s.h.kernel.processes.wait(pid);
    await s.finish("a");
    await until(() => s.child(pid, "a").state === "ended");
    await s.fail("b");
    expect(await done).toEqual({ code: 0, reason: "completed" });
  });

  test("does not come while a child is suspended: its run can be resumed", async () => {
    await using s = new Supervised();
    const pid = await s.spawn(s.spec("one_for_one", [s.agent("a", { restart: "transient" })]));
    await s.h.kernel.lifecycle.suspend(s.pid(pid, "a"));
    await until(() => s.child(pid, "a").state === "suspended");
    await settled();
    expect(s.h.kernel.processes.info(pid).state).toBe("running");
    await s.h.kernel.supervisors.restartChild(pid, "a");
    expect(s.child(pid, "a").state).toBe("running");
  });
});

describe("a child that was suspended", () => {
  async function suspendedChild(s: Supervised, policy: "permanent" | "transient" | "temporary") {
    const spec = s.spec("one_for_all", [s.agent("a", { restart: policy }), s.agent("b")]);
    const supervisor = await s.spawn(spec);
    const { uuid } = s.h.kernel.processes.info(s.pid(supervisor, "a"));
    await s.h.kernel.lifecycle.suspend(s.pid(supervisor, "a"), { wake: { on: "at", at_ms: 1 } });
    await until(() => s.child(supervisor, "a").state === "suspended");
    return { supervisor, uuid };
  }

  test("becomes its supervisor's child again when its run resumes, and counts as no restart", async () => {
    await using s = new Supervised();
    const { supervisor, uuid } = await suspendedChild(s, "permanent");
    const { pid } = await s.h.kernel.lifecycle.resume(uuid, null, s.h.opts());
    await until(() => s.child(supervisor, "a").state === "running");
    await until(() => s.h.requests.length === 3, "its model call");
    expect(s.child(supervisor, "a")).toMatchObject({ pid, uuid, restarts: 0 });
    expect(s.h.kernel.processes.info(pid).ppid).toBe(supervisor);
    expect(s.starts).toEqual(["a", "b"]);
    // And what becomes of it is its supervisor's business again.
    s.h.kernel.processes.kill(pid, SIGTERM);
    await until(() => s.child(supervisor, "a").restartInMs !== null, "its time");
    await s.clock.advance(500);
    const isUp = (id: string): boolean => s.child(supervisor, id).state === "running";
    await until(() => s.h.requests.length === 5 && isUp("a") && isUp("b"), "the start of both");
  });

  test("runs beside its replacement, below the supervisor, when it resumes", async () => {
    await using s = new Supervised();
    const { supervisor, uuid } = await suspendedChild(s, "permanent");
    const restarted = await s.h.kernel.supervisors.restartChild(supervisor, "a");
    const { pid } = await s.h.kernel.lifecycle.resume(uuid, null, s.h.opts());
    await until(() => s.h.requests.length === 4, "the model calls of all");
    expect(s.child(supervisor, "a").pid).toBe(restarted);
    expect(s.h.kernel.processes.info(pid).ppid).toBe(supervisor);
  });

  test.each([
    ["permanent", "waiting"],
    ["transient", "waiting"],
    ["temporary", "ended"],
  ] as const)(
    "with policy %s counts as ended when its suspended run is killed: %s",
    async (policy, state) => {
      await using s = new Supervised();
      const { supervisor, uuid } = await suspendedChild(s, policy);
      const info = await s.h.runs.info(uuid);
      if (!info) throw new Error("no record");
      await s.h.kernel.lifecycle.endSuspended(info, s.h.dataDir, SIGTERM);
      await until(() => s.child(supervisor, "a").state === state);
      expect(s.child(supervisor, "a").exit).toMatchObject({ reason: "terminated" });
    },
  );
});

describe("restarts", () => {
  test("wait longer each time, and more than the intensity within the period end the supervisor", async () => {
    await using s = new Supervised();
    const pid = await s.spawn(s.spec("one_for_one", [s.agent("a"), s.agent("b")], { intensity: 3 }));
    const { uuid } = s.h.kernel.processes.info(pid);
    const done = s.h.kernel.processes.wait(pid);
    for (const delay of [500, 1_000, 2_000]) {
      await s.fail("a");
      expect(await waits(s, pid, "a")).toBe(delay);
      await s.clock.advance(delay);
      await runs(s, pid, "a");
    }
    await s.fail("a");
    expect(await done).toMatchObject({
      code: 1,
      reason: "max_restarts_exceeded",
      error: { code: "EXHAUSTED" },
    });
    expect(s.h.kernel.processes.count).toBe(0);
    expect((await deeds(s, uuid)).slice(2)).toEqual([
      "Exit a restart in 500 ms (1 of 3 in 60000 ms)",
      "Restart a",
      expect.stringMatching(/^Start a \d+$/),
      "Exit a restart in 1000 ms (2 of 3 in 60000 ms)",
      "Restart a",
      expect.stringMatching(/^Start a \d+$/),
      "Exit a restart in 2000 ms (3 of 3 in 60000 ms)",
      "Restart a",
      expect.stringMatching(/^Start a \d+$/),
      "Exit a one restart too many",
      "GiveUp max_restarts_exceeded",
      "Stop b terminated",
    ]);
  });

  for (const [after, givesUp] of [
    [60_000, true],
    [60_001, false],
  ] as const) {
    test(`of one a minute: a second one after ${after} ms ${givesUp ? "ends" : "does not end"} the supervisor`, async () => {
      await using s = new Supervised();
      const pid = await s.spawn(s.spec("one_for_one", [s.agent("a")], { intensity: 1 }));
      await s.fail("a");
      await s.clock.advance(await waits(s, pid, "a"));
      await runs(s, pid, "a");
      await s.clock.advance(after - 500);
      const done = s.h.kernel.processes.wait(pid);
      await s.fail("a");
      if (givesUp) expect(await done).toMatchObject({ reason: "max_restarts_exceeded" });
      // It ran for less than a period, so it is its second delay.
      else expect(await waits(s, pid, "a")).toBe(1_000);
    });
  }

  test("of an intensity of 0: the first ends the supervisor, also after a clean end", async () => {
    await using s = new Supervised();
    const pid = await s.spawn(s.spec("one_for_one", [s.agent("a")], { intensity: 0 }));
    const done = s.h.kernel.processes.wait(pid);
    await s.finish("a");
    expect(await done).toMatchObject({ reason: "max_restarts_exceeded" });
  });

  test("of an agent that just finishes never end its supervisor: it runs at the rate of the limit", async () => {
    await using s = new Supervised();
    const pid = await s.spawn(s.spec("one_for_one", [s.agent("a")], { intensity: 2, periodMs: 60_000 }));
    const startedAt = [0];
    for (let round = 0; round < 12; round++) {
      await s.finish("a");
      await s.clock.advance(await waits(s, pid, "a"));
      await runs(s, pid, "a");
      startedAt.push(s.clock.monotonic());
    }
    // Never more than two restarts in any 60 s.
    for (let at = 3; at < startedAt.length; at++) {
      expect((startedAt[at] ?? 0) - (startedAt[at - 2] ?? 0)).toBeGreaterThan(60_000);
    }
    expect(startedAt.at(-1)).toBeLessThan(12 * 40_000);
  });

  test("of clean ends wait when a failure has used the limit", async () => {
    await using s = new Supervised();
    const pid = await s.spawn(s.spec("one_for_one", [s.agent("a"), s.agent("b")], { intensity: 1 }));
    await s.finish("a");
    expect(await waits(s, pid, "a")).toBe(500);
    await s.fail("b");
    expect(await waits(s, pid, "b")).toBe(500);
    await s.clock.advance(500);
    await runs(s, pid, "b");
    await until(() => (s.child(pid, "a").restartInMs ?? 0) > 0);
    expect(s.child(pid, "a").restartInMs).toBe(59_501);
    await s.clock.advance(59_501);
    await runs(s, pid, "a");
  });

  test("that fail to start count, and are tried again", async () => {
    await using s = new Supervised();
    const pid = await s.spawn(s.spec("one_for_one", [s.agent("a"), s.agent("b")]));
    s.broken.set("a", 2);
    await s.fail("a");
    for (const delay of [500, 1_000, 2_000]) {
      expect(await waits(s, pid, "a")).toBe(delay);
      await s.clock.advance(delay);
      await until(() => s.child(pid, "a").restartInMs !== 0);
    }
    await runs(s, pid, "a");
    expect(s.starts.filter((id) => id === "a")).toHaveLength(4);
    const done = s.h.kernel.processes.wait(pid);
    await s.fail("b");
    expect(await done).toMatchObject({ reason: "max_restarts_exceeded" });
  });

  for (const [strategy, startedAgain] of [
    ["rest_for_one", ["b", "c", "d"]],
    ["one_for_all", ["a", "b", "c", "d"]],
  ] as const) {
    test(`${strategy}: where one in the middle does not start, the next try begins with it`, async () => {
      await using s = new Supervised();
      const children = ["a", "b", "c", "d"].map((id) => s.agent(id));
      const pid = await s.spawn(s.spec(strategy, children));
      const first = startedAgain[0];
      await s.fail(first);
      s.broken.set("c", 1);
      await s.clock.advance(await waits(s, pid, first));
      await waits(s, pid, "c");
      const kept = s.child(pid, "b").pid;
      expect(kept === null).toBe(strategy === "one_for_all");
      s.starts.length = 0;
      await s.clock.advance(await waits(s, pid, "c"));
      await runs(s, pid, "d");
      expect(s.starts).toEqual(strategy === "one_for_all" ? [...startedAgain] : ["c", "d"]);
    });
  }

  test("rest_for_one: when an earlier child ends too, its restart includes the pending ones", async () => {
    await using s = new Supervised();
    const children = ["a", "b", "c"].map((id) => s.agent(id));
    const pid = await s.spawn(s.spec("rest_for_one", children));
    await s.fail("c");
    await waits(s, pid, "c");
    await s.clock.advance(200);
    await s.fail("b");
    expect(await waits(s, pid, "b")).toBe(500);
    expect(await waits(s, pid, "c")).toBe(500);
    s.starts.length = 0;
    await s.clock.advance(300);
    await settled();
    expect(s.starts).toEqual([]);
    await s.clock.advance(200);
    await runs(s, pid, "c");
    expect(s.starts).toEqual(["b", "c"]);
  });

  test("begin with the first delay for a child that ran for a period", async () => {
    await using s = new Supervised();
    const pid = await s.spawn(s.spec("one_for_one", [s.agent("a")]));
    for (let round = 0; round < 3; round++) {
      await s.fail("a");
      expect(await waits(s, pid, "a")).toBe(500);
      await s.clock.advance(500);
      await runs(s, pid, "a");
      await s.clock.advance(60_000);
    }
  });

  test("are made by no paused supervisor, and none is lost", async () => {
    await using s = new Supervised();
    const pid = await s.spawn(s.spec("one_for_one", [s.agent("a"), s.agent("b")]));
    const signal = (one: Signal): void => void s.h.kernel.signals.signal(pid, one);
    await s.fail("a");
    await waits(s, pid, "a");
    await s.clock.advance(200);
    signal(SIGPAUSE);
    const b = s.pid(pid, "b");
    await s.fail("b");
    await until(() => !s.h.kernel.processes.listProcs().some((proc) => proc.pid === b));
    await s.clock.advance(10_000);
    await settled();
    expect(s.starts).toEqual(["a", "b"]);
    expect(s.child(pid, "a").restartInMs).toBe(300);
    expect(await failure(s.h.kernel.supervisors.restartChild(pid, "a"))).toMatchObject({
      code: "UNAVAILABLE",
    });
    signal(SIGRESUME);
    expect(await waits(s, pid, "b")).toBe(500);
    await s.clock.advance(300);
    await runs(s, pid, "a");
    await s.clock.advance(200);
    await runs(s, pid, "b");
  });

  test("leave a bounded trace in the supervisor, for any number of restarts", async () => {
    await using s = new Supervised();
    const pid = await s.spawn(s.spec("one_for_one", [s.agent("a")], { intensity: 1_000, periodMs: 1_000 }));
    for (let round = 0; round < 120; round++) {
      await s.fail("a");
      await s.clock.advance(await waits(s, pid, "a"));
      await runs(s, pid, "a");
    }
    expect(s.child(pid, "a").restarts).toBe(120);
    expect(s.h.kernel.processes.info(pid).children.length).toBe(100);
  });
});

describe("RestartChild", () => {
  for (const strategy of ["one_for_one", "one_for_all", "rest_for_one"] as Strategy[]) {
    test(`${strategy}: of a running child ends and starts it again, its siblings run on, and it does not count`, async () => {
      await using s = new Supervised();
      const pid = await s.spawn(s.spec(strategy, [s.agent("a"), s.agent("b")], { intensity: 0 }));
      const [a, b] = [s.pid(pid, "a"), s.pid(pid, "b")];
      const started = await s.h.kernel.supervisors.restartChild(pid, "a");
      expect(started).not.toBe(a);
      expect([s.pid(pid, "a"), s.pid(pid, "b")]).toEqual([started, b]);
      expect(s.h.kernel.processes.info(pid).state).toBe("running");
    });
  }

  test("of a waiting child starts it at once, with those it waits with", async () => {
    await using s = new Supervised();
    const pid = await s.spawn(s.spec("one_for_all", [s.agent("a"), s.agent("b")]));
    await s.fail("a");
    await waits(s, pid, "b");
    const started = await s.h.kernel.supervisors.restartChild(pid, "b");
    expect(s.children(pid).map(({ state }) => state)).toEqual(["running", "running"]);
    expect(s.pid(pid, "b")).toBe(started);
  });

  test("of a child that has ended for good starts it", async () => {
    await using s = new Supervised();
    const pid = await s.spawn(s.spec("one_for_one", [s.agent("a"), s.agent("b", { restart: "temporary" })]));
    await s.finish("b");
    await until(() => s.child(pid, "b").state === "ended");
    await s.h.kernel.supervisors.restartChild(pid, "b");
    expect(s.child(pid, "b")).toMatchObject({ state: "running", restarts: 1 });
  });

  test("that fails is an error, and what ran until then is tried again", async () => {
    await using s = new Supervised();
    const pid = await s.spawn(s.spec("one_for_one", [s.agent("a")]));
    s.broken.set("a", 1);
    const error = await failure(s.h.kernel.supervisors.restartChild(pid, "a"));
    expect(error.message).toContain("a can't be planned");
    await s.clock.advance(await waits(s, pid, "a"));
    await runs(s, pid, "a");
  });

  test("of an unknown child, an ordinary process or a missing process fails", async () => {
    await using s = new Supervised();
    const pid = await s.spawn(s.spec("one_for_one", [s.agent("a")]));
    const { supervisors } = s.h.kernel;
    const error = await failure(supervisors.restartChild(pid, "z"));
    expect(error).toMatchObject({ code: "NOT_FOUND", syscall: "RestartChild" });
    expect(error.message).toContain("Its children are: a");
    expect(await failure(supervisors.restartChild(s.pid(pid, "a"), "a"))).toMatchObject({ code: "INVALID" });
    expect(await failure(supervisors.stopSupervisor(99))).toMatchObject({ code: "NOT_FOUND" });
    expect(() => supervisors.supervisorChildren(s.pid(pid, "a"))).toThrow("is not a supervisor");
  });
});

describe("an act of a supervisor", () => {
  test("is recorded under its syscall, too", async () => {
    await using s = new Supervised();
    const pid = await s.spawn(s.spec("one_for_one", [s.agent("a")]));
    const { uuid } = s.h.kernel.processes.info(pid);
    s.children(pid);
    await s.h.kernel.supervisors.restartChild(pid, "a");
    await s.h.kernel.supervisors.stopSupervisor(pid);
    const { records } = await s.h.runs.events(uuid);
    const syscalls = records.map(({ syscall }) => syscall);
    for (const name of ["Spawn", "SpawnSupervisor", "SupervisorChildren", "RestartChild", "Signal"]) {
      expect(syscalls).toContain(name);
    }
    expect(s.h.kernel.debug.ofPid0.map(({ syscall }) => syscall)).toContain("StopSupervisor");
  });
});
