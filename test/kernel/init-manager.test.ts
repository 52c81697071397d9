import { describe, expect, test } from "bun:test";
import type { InitPlan, InitUnitPlan } from "../../src/kernel/init-manager.ts";
import type { ChildSpec, SupervisorSpec } from "../../src/kernel/supervisor/spec.ts";
import { SyscallError } from "../../src/plugin/index.ts";
import { failure } from "../support/failure.ts";
import { passing, settled } from "../support/fake-clock.ts";
import { Mountable } from "../support/mountable.ts";
import { Supervised } from "../support/supervised.ts";
import { until } from "../support/until.ts";

/** A child that never starts: time passes until it is given up. */
const STUCK = "stuck";
const SETTLE_MS = 200;
const SLEEP = { argv: ["/bin/sleep", "600"] };

interface Wanted {
  required?: boolean;
}

function supervisor(
  s: Supervised,
  name: string,
  children: ChildSpec[],
  more: Wanted & Partial<SupervisorSpec> = {},
): InitUnitPlan {
  const { required = false, ...spec } = more;
  const whole = { ...s.spec("one_for_one", children), name, ...spec };
  return { name, type: "supervisor", required, start: { kind: "supervisor", spec: whole } };
}

function stuck(s: Supervised): ChildSpec {
  const plan = () => {
    s.starts.push(STUCK);
    return new Promise<never>(() => undefined);
  };
  return { id: STUCK, start: { kind: "agent", plan } };
}

function mount(s: Supervised, name: string, { required = false }: Wanted = {}): InitUnitPlan {
  const request = { type: "table", name, config: {} };
  const plan = async () => ({ request, opts: s.h.opts() });
  return { name, type: "mcp", required, start: { kind: "mount", of: "project", plan } };
}

function plan(units: InitUnitPlan[], project: string | null = null): InitPlan {
  return { project, units };
}

/** Only the short time that a required unit is watched for passes by itself: programs take real time. */
async function boot(s: Supervised, what: InitPlan): Promise<void> {
  const work = s.h.kernel.init.initBoot(what);
  let over = false;
  const end = (): void => {
    over = true;
  };
  work.then(end, end);
  while (!over) {
    const [next] = s.clock.waits;
    if (next !== undefined && (s.starts.includes(STUCK) || next <= SETTLE_MS)) await s.clock.advance(next);
    else await settled();
  }
  await work;
}

function states(s: Supervised): [string, string][] {
  return s.h.kernel.init.initStatus().map(({ name, state }) => [name, state]);
}

/** What PID 0 did to units, in its order. */
function done(s: Supervised): string[] {
  return s.h.kernel.debug.ofPid0.flatMap(({ syscall, args }) => {
    if (syscall === "Mount" || syscall === "Unmount") return [`${syscall} ${args.path}`];
    return syscall === "InitBoot" ? [`${syscall} ${args.project}`] : [];
  });
}

describe("InitBoot", () => {
  test("starts units in their order, and reports the state of each", async () => {
    const table = new Mountable();
    await using s = new Supervised({ mounts: [table.type] });
    await boot(
      s,
      plan([
        mount(s, "shared", { required: true }),
        supervisor(s, "program", [s.command("web", SLEEP)], { required: true }),
        supervisor(s, "agents", [s.agent("a"), s.agent("b")]),
      ]),
    );
    expect(s.starts).toEqual(["web", "a", "b"]);
    const now = s.clock.now();
    const status = s.h.kernel.init.initStatus();
    expect(status).toEqual([
      {
        project: null,
        name: "shared",
        type: "mcp",
        required: true,
        state: "running",
        sinceMs: expect.any(Number),
        pid: null,
        restarts: null,
        error: null,
      },
      {
        project: null,
        name: "program",
        type: "supervisor",
        required: true,
        state: "running",
        sinceMs: expect.any(Number),
        pid: 1,
        restarts: 0,
        error: null,
      },
      {
        project: null,
        name: "agents",
        type: "supervisor",
        required: false,
        state: "running",
        sinceMs: expect.any(Number),
        pid: 3,
        restarts: 0,
        error: null,
      },
    ]);
    expect(status.every(({ sinceMs }) => sinceMs <= now && sinceMs >= now - 2_000)).toBe(true);
    const events = s.h.kernel.debug.ofPid0.filter(({ syscall }) => syscall.startsWith("Init"));
    expect(events).toMatchObject([
      {
        syscall: "InitBoot",
        args: { project: null, units: ["shared", "program", "agents"] },
        result: ["shared", "program", "agents"],
      },
      { syscall: "InitStatus", result: 3 },
    ]);
  });

  const faults: [what: string, unit: (s: Supervised, required: boolean) => InitUnitPlan, why: string][] = [
    [
      "a child that can't be planned",
      (s, required) => {
        s.broken.set("x", 9);
        return supervisor(s, "bad", [s.agent("ok"), s.agent("x")], { required });
      },
      "x can't be planned",
    ],
    [
      "a program that is not there",
      (s, required) => supervisor(s, "bad", [s.command("x", { argv: ["/no/such/program"] })], { required }),
      "/no/such/program",
    ],
    [
      "a plan that never comes",
      (s, required) => supervisor(s, "bad", [stuck(s)], { required }),
      "within 60 s",
    ],
    ["a mount that is refused", (s, required) => mount(s, "bad", { required }), "no server there"],
  ];
  for (const [what, unit, why] of faults) {
    const mounts = () => [
      new Mountable("table", {
        opening: (_, { project }) => {
          if (project.dir !== "") throw new SyscallError("UNAVAILABLE", "no server there");
        },
      }).type,
    ];

    test(`starts without an optional unit: ${what}`, async () => {
      await using s = new Supervised({ mounts: mounts() });
      const units = [
        supervisor(s, "first", [s.agent("a")]),
        unit(s, false),
        supervisor(s, "last", [s.agent("z")]),
      ];
      await boot(s, plan(units));
      expect(states(s)).toEqual([
        ["first", "running"],
        ["bad", "failed"],
        ["last", "running"],
      ]);
      expect(s.h.kernel.init.initStatus()[1]?.error).toContain(why);
      expect(s.h.warnings.filter((text) => /continues without .* bad/.test(text))).toHaveLength(1);
    });

    test(`stops the units it has started, with the reason, when a required one fails: ${what}`, async () => {
      await using s = new Supervised({ mounts: mounts() });
      const units = [
        supervisor(s, "first", [s.agent("a")]),
        supervisor(s, "second", [s.agent("b")]),
        unit(s, true),
        supervisor(s, "last", [s.agent("z")]),
      ];
      const error = await failure(boot(s, plan(units, "/p")));
      expect(error.code).toBe("UNAVAILABLE");
      expect(error.message).toMatch(/^The required (supervisor|mcp) bad did not come up: /);
      expect(error.message).toContain(why);
      expect(states(s)).toEqual([
        ["first", "stopped"],
        ["second", "stopped"],
        ["bad", "failed"],
        ["last", "stopped"],
      ]);
      expect(s.h.kernel.processes.count).toBe(0);
      expect(s.starts).not.toContain("z");
    });
  }

  test("reports a required program that ends at once as failed, with its last output", async () => {
    await using s = new Supervised();
    const argv = ["/bin/sh", "-c", "echo no port left; exit 3"];
    let over = false;
    const failing = failure(
      s.h.kernel.init.initBoot(
        plan([
          supervisor(s, "db", [s.command("db", { argv }, { restart: "permanent" })], { required: true }),
        ]),
      ),
    ).finally(() => {
      over = true;
    });
    // Programs take real time: its end is seen before the time is up.
    await until(() => s.h.kernel.supervisors.size === 1 && s.child(1, "db").exit !== null);
    await until(async () => {
      await s.clock.advance(SETTLE_MS);
      return over;
    });
    const error = await failing;
    expect(error.message).toMatch(
      /required supervisor db did not come up: db ended as it started: .*ended with 3.*no port left/,
    );
    expect(s.h.kernel.processes.count).toBe(0);
  });

  test("finds it, too, when its end is reported only after the watch time", async () => {
    await using s = new Supervised();
    const argv = ["/bin/sh", "-c", "echo no port left; exit 3"];
    const reported = Promise.withResolvers<void>();
    const { children } = s.h;
    const endOwner = children.endOwner.bind(children);
    children.endOwner = async (uuid) => {
      await reported.promise;
      await endOwner(uuid);
    };
    const units = [supervisor(s, "db", [s.command("db", { argv })], { required: true })];
    const failing = failure(s.h.kernel.init.initBoot(plan(units)));
    await until(() => s.starts.length === 1 && s.clock.waits.includes(SETTLE_MS), "it is watched");
    await until(() => children.list().length === 0, "the program's end");
    await s.clock.advance(SETTLE_MS);
    reported.resolve();
    expect((await failing).message).toMatch(/db ended as it started: .*ended with 3/);
  });

  test("may be retried for failed units, and not for running ones", async () => {
    await using s = new Supervised();
    s.broken.set("a", 1);
    const units = [supervisor(s, "agents", [s.agent("a")], { required: true })];
    await failure(boot(s, plan(units, "/p")));
    await boot(s, plan(units, "/p"));
    expect(states(s)).toEqual([["agents", "running"]]);
    expect((await failure(boot(s, plan(units, "/p")))).code).toBe("INVALID");
    await boot(s, plan([supervisor(s, "mine", [s.agent("b")])]));
    expect(states(s)).toEqual([
      ["agents", "running"],
      ["mine", "running"],
    ]);
  });
});

describe("a running unit", () => {
  test("is counted when it ends and restarts, and has failed when it ends too often", async () => {
    await using s = new Supervised();
    await boot(s, plan([supervisor(s, "agents", [s.agent("a")], { intensity: 1, periodMs: 60_000 })]));
    const [before] = s.h.kernel.init.initStatus();
    await s.fail("a");
    await until(async () => {
      await s.clock.advance(500);
      return s.starts.length === 2;
    });
    await settled();
    expect(s.h.kernel.init.initStatus()).toMatchObject([
      { state: "running", restarts: 1, sinceMs: before?.sinceMs },
    ]);
    await s.fail("a");
    await until(() => s.h.kernel.processes.count === 0);
    expect(s.h.kernel.init.initStatus()).toMatchObject([{ state: "failed", restarts: 1, pid: before?.pid }]);
    expect(s.h.kernel.init.initStatus()[0]?.error).toContain("max_restarts_exceeded (1)");
    expect(s.h.warnings.filter((text) => text.includes("supervisor agents"))).toHaveLength(1);
  });

  test("has stopped when all its processes are done", async () => {
    await using s = new Supervised();
    await boot(
      s,
      plan([supervisor(s, "agents", [s.agent("a", { restart: "transient" })], { required: true })]),
    );
    await s.finish("a");
    await until(() => s.h.kernel.processes.count === 0);
    expect(s.h.kernel.init.initStatus()).toMatchObject([{ state: "stopped", error: null }]);
  });

  test("has failed while its mount is down", async () => {
    const table = new Mountable();
    await using s = new Supervised({ mounts: [table.type] });
    await boot(s, plan([mount(s, "shared")]));
    table.tables[0]?.end("the server has gone");
    await settled();
    expect(s.h.kernel.init.initStatus()).toMatchObject([
      { state: "failed", error: expect.stringContaining("the server has gone") },
    ]);
    await s.clock.advance(1_000);
    expect(s.h.kernel.init.initStatus()).toMatchObject([{ state: "running", error: null }]);
  });
});

describe("the end of the kernel", () => {
  test("ends ordinary runs, then projects' units, then the user's, in each the last started first", async () => {
    const table = new Mountable();
    await using s = new Supervised({ mounts: [table.type] });
    const ended: string[] = [];
    const watch = (pid: number, name: string) => {
      void s.h.kernel.processes.wait(pid).then(({ reason }) => ended.push(`${name} ${reason}`));
    };
    await boot(
      s,
      plan([supervisor(s, "one", [s.agent("a")]), mount(s, "two"), supervisor(s, "three", [s.agent("b")])]),
    );
    await boot(s, plan([supervisor(s, "four", [s.agent("c")]), supervisor(s, "five", [s.agent("d")])], "/p"));
    for (const { pid, name } of s.h.kernel.init.initStatus()) if (pid !== null) watch(pid, name);
    watch(await s.h.spawn("e 1"), "run");
    await passing(s.clock, s.h.kernel.shutdown());
    expect(ended).toEqual([
      "run suspended",
      "five terminated",
      "four terminated",
      "three terminated",
      "one terminated",
    ]);
    expect(table.open).toBe(0);
    expect(done(s)).toEqual([
      "Mount /mnt/table/two",
      "InitBoot null",
      "InitBoot /p",
      "Unmount /mnt/table/two",
    ]);
    expect(states(s).every(([, state]) => state === "stopped")).toBe(true);
  });

  test("is at once with `now`", async () => {
    await using s = new Supervised();
    await boot(s, plan([supervisor(s, "one", [s.agent("a")])]));
    const ended = s.h.kernel.processes.wait(1);
    await s.h.kernel.shutdown({ now: true });
    expect(await ended).toMatchObject({ reason: "killed" });
    expect(states(s)).toEqual([["one", "stopped"]]);
  });

  test("calls off what is just coming up, and what would come after it", async () => {
    await using s = new Supervised();
    const booting = failure(
      s.h.kernel.init.initBoot(
        plan([
          supervisor(s, "first", [s.agent("a")]),
          supervisor(s, "slow", [s.agent("b"), stuck(s)]),
          supervisor(s, "last", [s.agent("z")]),
        ]),
      ),
    );
    await until(() => s.starts.includes(STUCK));
    await s.h.kernel.shutdown();
    expect((await booting).message).toContain("shutting down");
    expect(s.starts).toEqual(["a", "b", STUCK]);
    expect((await failure(s.h.kernel.init.initBoot(plan([])))).code).toBe("CANCELLED");
  });
});
