import { describe, expect, test } from "bun:test";
import type { Task } from "../../src/kernel/lifetime/process-runner.ts";
import { Permissions } from "../../src/kernel/permission/permissions.ts";
import type { Process } from "../../src/kernel/process/process.ts";
import { bareAgent } from "../../src/kernel/process/process-spec.ts";
import type { AgentInfo, MountRequest, PID, SpawnOpts } from "../../src/kernel/types.ts";
import { O_RDWR, SyscallError } from "../../src/plugin/index.ts";
import { failure } from "../support/failure.ts";
import { FakeClock, settled } from "../support/fake-clock.ts";
import { isAlive } from "../support/is-alive.ts";
import { calls, KernelHarness, type Model, says, script, silent } from "../support/kernel.ts";
import { echo, Mountable } from "../support/mountable.ts";
import { seeded } from "../support/seeded.ts";
import { until } from "../support/until.ts";

const one: MountRequest = { type: "table", name: "one", config: { at: "home" } };
const optional: MountRequest = { ...one, required: false, waitMs: 1, timeoutMs: 60_000 };

function agent(more: Partial<AgentInfo>): AgentInfo {
  return { ...bareAgent("worker"), ...more };
}

type Spawn = Parameters<KernelHarness["spawn"]>;

/** Spawns, and waits for its first request: its mounts are made. */
async function started(h: KernelHarness, intent: string, more: Spawn[1], who?: Spawn[2]): Promise<PID> {
  const pid = await h.spawn(intent, more, who);
  await until(() => h.requests.some((request) => request.intent === intent));
  return pid;
}

/** How a run ended whose mounts could not be made. */
async function refusal(h: KernelHarness, more: Spawn[1], who?: Spawn[2]) {
  const { exit_code, exit_reason, error } = (await h.run("go", more, who)).info;
  return { exit_code, exit_reason, error };
}

/** Every event of a process's record. */
async function eventsOf(h: KernelHarness, uuid: string, ...names: string[]) {
  const { records } = await h.runs.events(uuid);
  return records.filter(({ syscall }) => names.includes(syscall));
}

describe("a mount of a new process", () => {
  test("is at its path, is called like any device, and ends with the process", async () => {
    const table = new Mountable();
    await using h = new KernelHarness({
      model: script(calls(["table__one__Echo", { op: "mine", n: 1 }]), says("done")),
      mounts: [table.type],
    });
    const { info } = await h.run("go", { mounts: [one] });
    expect(info.exit_code).toBe(0);
    expect(h.requests[0]?.tools?.map(({ name }) => name)).toContain("table__one__Echo");
    const { records } = await h.runs.steps(info.uuid);
    expect(records[0]?.tool_calls[0]).toMatchObject({
      path: `/mnt/table/${info.pid}-one/echo`,
      result: '{"op":"mine","n":1}',
      state: "done",
    });
    expect(table.tables[0]?.config).toEqual({ at: "home" });
    expect(table.tables[0]?.unmounted).toBe(true);
    const path = `/mnt/table/${info.pid}-one`;
    expect(await eventsOf(h, info.uuid, "Mount", "Unmount")).toMatchObject([
      { syscall: "Mount", args: { path, type: "table" }, result: path },
      { syscall: "Unmount", args: { path } },
    ]);
  });

  test("a required one that fails unmounts all of them, and ends the process", async () => {
    const table = new Mountable();
    const broken = new Mountable("broken", {
      opening: () => {
        throw new SyscallError("UNAVAILABLE", "no server there");
      },
    });
    await using h = new KernelHarness({ model: silent, mounts: [table.type, broken.type] });
    expect(await refusal(h, { mounts: [one, { ...one, type: "broken" }] })).toEqual({
      exit_code: 69,
      exit_reason: "unavailable",
      error: { code: "UNAVAILABLE", message: "no server there" },
    });
    expect(table.tables.map(({ unmounted }) => unmounted)).toEqual([true]);
    expect(h.kernel.mounts.size).toBe(0);
    expect(h.requests).toEqual([]);
  });

  test("one that is not required is left out, and watchers get an event", async () => {
    const broken = new Mountable("broken", {
      opening: () => {
        throw new Error("no such host");
      },
    });
    await using h = new KernelHarness({ model: script(says("done")), mounts: [broken.type] });
    const mounts = [{ ...one, type: "broken", required: false }];
    const list = agent({ allowedTools: ["Plan", "broken__one__search"] });
    const { info, events } = await h.run("go", { mounts }, list);
    expect(info.exit_code).toBe(0);
    expect(events).toContainEqual({
      event: "notice",
      text: "broken one: Plugin test, broken one: no such host",
    });
  });

  test("an unknown type, and a name that fits in no path, fail with what is expected", async () => {
    await using h = new KernelHarness({ model: silent, mounts: [new Mountable().type] });
    expect((await refusal(h, { mounts: [{ ...one, type: "mcp" }] })).error).toEqual({
      code: "NOT_FOUND",
      message: 'No plugin mounts the type "mcp". There are: table.',
    });
    for (const name of ["", "a/b", "..", "a__b", "x".repeat(65)]) {
      const wrong = { exit_code: 64, exit_reason: "usage", error: { code: "INVALID" } };
      expect(await refusal(h, { mounts: [{ ...one, name }] })).toMatchObject(wrong);
    }
    expect((await refusal(h, { mounts: [one, one] })).error).toMatchObject({
      code: "INVALID",
      message: expect.stringContaining("mounted already"),
    });
  });

  test("names of tools fit the providers' rules and differ, and no tool is offered twice", async () => {
    const long = "x".repeat(80);
    const table = new Mountable("table", { devices: echo(`${long}a`, `${long}b`, "a.b", "a_b") });
    await using h = new KernelHarness({ model: script(says("done")), mounts: [table.type] });
    await h.run("go", { mounts: [{ ...one, name: "on.e" }] });
    const names = h.requests[0]?.tools?.map(({ name }) => name).filter((name) => name.startsWith("table__"));
    expect(names).toHaveLength(3);
    for (const name of names ?? []) expect(name).toMatch(/^table__on_e__[A-Za-z0-9_-]{1,51}$/);
    expect(h.warnings.join("\n")).toContain("Its tool a_b is not offered");
  });
});

describe("the first step", () => {
  const slow = () => {
    const stands = Promise.withResolvers<void>();
    return { stands, table: new Mountable("table", { opening: () => stands.promise }) };
  };
  const notices = (events: readonly { event: string }[]): string[] =>
    events.flatMap((event) => ("text" in event && event.event === "notice" ? [String(event.text)] : []));

  test("waits for a required mount, which is announced when it takes long", async () => {
    const { stands, table } = slow();
    const clock = new FakeClock();
    await using h = new KernelHarness({ model: script(says("done")), mounts: [table.type], clock });
    const pid = await h.spawn("go", { mounts: [{ ...one, timeoutMs: 60_000 }] });
    await until(() => table.attempts === 1);
    await clock.advance(30_000);
    expect(h.requests).toEqual([]);
    stands.resolve();
    const { info, events } = await h.follow(pid);
    expect(info.exit_code).toBe(0);
    expect(h.requests[0]?.tools?.map(({ name }) => name)).toContain("table__one__Echo");
    expect(notices(events)).toEqual(["starting one …", "one ready after 30s"]);
  });

  test("waits for no other; its tools come when the model asks ToolSearch for them", async () => {
    const { stands, table } = slow();
    await using h = new KernelHarness({
      model: script(
        calls(["Plan", { steps: ["x"] }]),
        calls(["ToolSearch", { query: "table__one__*" }]),
        calls(["table__one__Echo", { n: 1 }]),
        says("done"),
      ),
      mounts: [table.type],
    });
    const pid = await h.spawn("go", { mounts: [optional] });
    await until(() => h.requests.length === 2);
    const search = h.requests[0]?.tools?.find(({ name }) => name === "ToolSearch");
    expect(search?.description).toContain("table__one__*");
    await settled();
    expect(h.requests).toHaveLength(2);
    stands.resolve();
    const { info, events } = await h.follow(pid);
    const { records } = await h.runs.steps(info.uuid);
    expect(records[1]?.tool_calls[0]?.result).toBe("Loaded: table__one__Echo. You can call them now.");
    expect(records[2]?.tool_calls[0]?.result).toBe('{"op":"Echo","n":1}');
    // What a provider has cached of the request stays.
    expect(h.requests[1]?.tools).toEqual(h.requests[0]?.tools ?? []);
    expect(h.requests[2]?.tools?.slice(0, -1)).toEqual(h.requests[0]?.tools ?? []);
    expect(JSON.stringify(h.requests[3]?.messages)).not.toContain("Still starting");
    expect(notices(events)).toEqual([]);
  });

  test("shows the tools of one that is open already", async () => {
    const table = new Mountable();
    await using h = new KernelHarness({
      model: (request, signal) => (request.intent === "first" ? silent(request, signal) : says("done")),
      mounts: [table.type],
    });
    await started(h, "first", { mounts: [one] });
    await h.run("go", { mounts: [optional] });
    expect(h.requests.at(-1)?.tools?.map(({ name }) => name)).toContain("table__one__Echo");
  });

  test("that ends the run does not wait: no model call follows when a mount is ready meanwhile", async () => {
    const { stands, table } = slow();
    const answers = Promise.withResolvers<void>();
    await using h = new KernelHarness({
      model: async () => {
        await answers.promise;
        return says("done");
      },
      mounts: [table.type],
    });
    const pid = await h.spawn("go", { mounts: [optional] });
    await until(() => h.requests.length === 1);
    stands.resolve();
    await until(() => h.kernel.processes.info(pid).allowed_tools.includes("table__one__Echo"));
    answers.resolve();
    expect((await h.follow(pid)).info.exit_code).toBe(0);
    expect(h.requests).toHaveLength(1);
    const { stands: never, table: hanging } = slow();
    await using k = new KernelHarness({ model: script(says("done")), mounts: [hanging.type] });
    expect((await k.run("go", { mounts: [optional] })).info.exit_code).toBe(0);
    never.resolve();
  });

  test("a search that fails says which mount has failed", async () => {
    const fails = Promise.withResolvers<void>();
    const table = new Mountable("table", { opening: () => fails.promise });
    await using h = new KernelHarness({
      model: script(calls(["ToolSearch", { query: "paint a picture" }]), says("done")),
      mounts: [table.type],
    });
    const pid = await h.spawn("go", { mounts: [optional] });
    await until(() => h.requests.length === 1);
    fails.reject(new SyscallError("UNAVAILABLE", "no such package"));
    const { info } = await h.follow(pid);
    const { records } = await h.runs.steps(info.uuid);
    expect(records[0]?.tool_calls[0]?.error).toContain("table__one__*: no such package");
  });

  test("without ToolSearch waits for another one up to a limit; the run does not end before its tools", async () => {
    const { stands, table } = slow();
    const clock = new FakeClock();
    await using h = new KernelHarness({
      model: script(says("I wait"), says("done")),
      mounts: [table.type],
      clock,
    });
    const pid = await h.spawn("go", { mounts: [{ ...optional, waitMs: 5_000 }], deny: ["ToolSearch"] });
    await until(() => table.attempts === 1);
    await clock.advance(5_000);
    await until(() => h.requests.length === 1);
    expect(h.requests[0]?.messages.at(-1)?.content).toContain("Still starting: one.");
    await settled();
    expect(h.kernel.processes.info(pid).state).toBe("running");
    stands.resolve();
    const { info } = await h.follow(pid);
    expect(info).toMatchObject({ exit_code: 0, result: "done" });
    expect(h.requests[1]?.tools?.map(({ name }) => name)).toContain("table__one__Echo");
  });

  test("without ToolSearch: the tools of such a mount come when it is ready", async () => {
    const { stands, table } = slow();
    const clock = new FakeClock();
    const turn = Promise.withResolvers<void>();
    await using h = new KernelHarness({
      model: async (request) => {
        if (request.messages.length > 2) return says("done");
        await turn.promise;
        return calls(["Plan", { steps: ["x"] }]);
      },
      mounts: [table.type],
      clock,
    });
    const pid = await h.spawn("go", { mounts: [{ ...optional, waitMs: 5_000 }], deny: ["ToolSearch"] });
    await until(() => table.attempts === 1);
    await clock.advance(4_999);
    expect(h.requests).toEqual([]);
    await clock.advance(1);
    await until(() => h.requests.length === 1);
    expect(h.requests[0]?.messages.at(-1)?.content).toContain("Still starting: one.");
    stands.resolve();
    await until(() => h.kernel.processes.info(pid).allowed_tools.includes("table__one__Echo"));
    turn.resolve();
    const { events } = await h.follow(pid);
    expect(h.requests[1]?.tools?.map(({ name }) => name)).toContain("table__one__Echo");
    expect(JSON.stringify(h.requests[1]?.messages)).toContain("New tools: table__one__Echo.");
    expect(notices(events)).toEqual([
      "starting one …",
      "one will be ready later; the run begins without waiting",
      "one is ready",
    ]);
  });

  test("may call a tool of a mount that is still being made: the call waits for it, and has the plugin's name", async () => {
    const { stands, table } = slow();
    await using h = new KernelHarness({
      model: script(calls(["table__one__Echo", { n: 1 }]), says("done")),
      mounts: [table.type],
    });
    const pid = await h.spawn("go", { mounts: [{ ...one, required: false, waitMs: 1 }] });
    await until(() => h.requests.length === 1);
    await settled();
    stands.resolve();
    const { info } = await h.follow(pid);
    const { records } = await h.runs.steps(info.uuid);
    expect(records[0]?.tool_calls[0]).toMatchObject({ state: "done", result: '{"op":"Echo","n":1}' });
  });

  test("is followed by others when a mount fails later; the user is notified", async () => {
    const fails = Promise.withResolvers<void>();
    const table = new Mountable("table", { opening: () => fails.promise });
    await using h = new KernelHarness({
      model: script(calls(["table__one__Echo", {}]), says("done")),
      mounts: [table.type],
    });
    const pid = await h.spawn("go", { mounts: [{ ...one, required: false, waitMs: 1 }] });
    await until(() => h.requests.length === 1);
    fails.reject(new SyscallError("UNAVAILABLE", "no such package"));
    const { info, events } = await h.follow(pid);
    expect(info.exit_code).toBe(0);
    expect(notices(events)).toContain("table one: no such package");
    expect(h.requests).toHaveLength(2);
  });

  test("of a resumed run whose required mount fails is not made: the run is suspended again", async () => {
    let broken = false;
    const table = new Mountable("table", {
      opening: () => {
        if (broken) throw new SyscallError("UNAVAILABLE", "not today");
      },
    });
    await using h = new KernelHarness({ model: silent, mounts: [table.type] });
    const pid = await started(h, "go", { mounts: [one] });
    const { uuid } = h.kernel.processes.info(pid);
    const shown = h.requests[0]?.tools;
    await h.kernel.lifecycle.suspend(pid);
    broken = true;
    const opts = () => h.opts({ mounts: [one] });
    const second = await h.kernel.lifecycle.resume(uuid, agent({}), opts());
    expect(await h.kernel.processes.wait(second.pid)).toMatchObject({
      code: 75,
      suspended: { reason: "not today" },
    });
    broken = false;
    const third = await h.kernel.lifecycle.resume(uuid, agent({}), opts());
    await until(() => h.requests.length === 2);
    expect(h.requests[1]?.tools).toEqual(shown);
    await end(h, third.pid);
  });
});

describe("a mount that does not become ready", () => {
  test("is given up at its deadline; a late one is unmounted at once", async () => {
    const clock = new FakeClock();
    const late = Promise.withResolvers<void>();
    let signal: AbortSignal | undefined;
    const table = new Mountable("table", {
      opening: (given) => {
        signal = given;
        return late.promise;
      },
    });
    await using h = new KernelHarness({ model: silent, mounts: [table.type], clock });
    const refused = refusal(h, { mounts: [one] });
    await until(() => table.attempts === 1);
    await clock.advance(4_999);
    expect(signal?.aborted).toBe(false);
    await clock.advance(1);
    expect(await refused).toMatchObject({
      exit_code: 69,
      error: {
        code: "TIMEOUT",
        message: "table one did not start within 5000 ms. Increase its timeout where it is declared.",
      },
    });
    expect(signal?.aborted).toBe(true);
    late.resolve();
    await until(() => table.tables[0]?.unmounted === true);
    expect(h.kernel.mounts.size).toBe(0);
  });

  test("leaves no program running, and starts no other", async () => {
    let pid = 0;
    const given = Promise.withResolvers<void>();
    let afterwards: unknown;
    const table = new Mountable("table", {
      opening: async (signal, context) => {
        const child = await context.exec?.({ argv: ["sleep", "600"], life: "process" });
        pid = child?.pid ?? 0;
        given.resolve();
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        afterwards = await failure(context.exec?.({ argv: ["true"], life: "process" }));
      },
    });
    const clock = new FakeClock();
    await using h = new KernelHarness({ model: silent, mounts: [table.type], clock });
    const refused = refusal(h, { mounts: [{ ...one, timeoutMs: 200 }] });
    await given.promise;
    expect(isAlive(pid)).toBe(true);
    await clock.advance(200);
    expect((await refused).error).toMatchObject({ code: "TIMEOUT" });
    expect(isAlive(pid)).toBe(false);
    expect(afterwards).toMatchObject({ code: "CLOSED" });
  });

  test("ends at once when its process is killed", async () => {
    const table = new Mountable("table", { opening: () => new Promise(() => {}) });
    await using h = new KernelHarness({ model: silent, mounts: [table.type] });
    const pid = await h.spawn("go", { mounts: [one] });
    await until(() => table.attempts === 1);
    h.kernel.processes.kill(pid, 2);
    expect(await h.kernel.processes.wait(pid)).toMatchObject({ code: 137 });
    expect(h.kernel.mounts.size).toBe(0);
  });
});

describe("a mount of several processes", () => {
  test("is opened once and closed when its last user releases it", async () => {
    const table = new Mountable();
    await using h = new KernelHarness({ model: silent, mounts: [table.type] });
    const [a, b] = await Promise.all([
      started(h, "a", { mounts: [one] }),
      started(h, "b", { mounts: [one] }),
    ]);
    expect(table.attempts).toBe(1);
    await end(h, a);
    expect(table.open).toBe(1);
    await end(h, b);
    expect(table.open).toBe(0);
    await end(h, await started(h, "c", { mounts: [one] }));
    expect(table.attempts).toBe(2);
  });

  const differing: [string, MountRequest, Record<string, string>][] = [
    ["another config", { ...one, config: { at: "work" } }, {}],
    ["another environment", one, { TOKEN: "t" }],
    ["a wish for its own", { ...one, shared: false }, {}],
  ];
  for (const [what, request, env] of differing) {
    test(`is not shared with ${what}`, async () => {
      const table = new Mountable();
      await using h = new KernelHarness({ model: silent, mounts: [table.type] });
      await started(h, "a", { mounts: [one] });
      await started(h, "b", { mounts: [request], env: { PATH: "/bin", ...env } });
      expect(table.open).toBe(2);
    });
  }

  test("is shared from another folder of the project", async () => {
    const table = new Mountable();
    await using h = new KernelHarness({ model: silent, mounts: [table.type] });
    await started(h, "a", { mounts: [one], env: { PATH: "/bin", PWD: "/p", SHLVL: "1" } });
    await started(h, "b", {
      mounts: [one],
      env: { PATH: "/bin", PWD: "/p/src", OLDPWD: "/p", SHLVL: "2", TRACEPARENT: "00-a-b-01" },
    });
    expect(table.open).toBe(1);
  });

  test("its opening continues when the process that began it is killed, and ends when no process waits", async () => {
    const stands = Promise.withResolvers<void>();
    const table = new Mountable("table", { opening: () => stands.promise });
    await using h = new KernelHarness({ model: silent, mounts: [table.type] });
    const a = await h.spawn("a", { mounts: [one] });
    const b = await h.spawn("b", { mounts: [one] });
    await until(() => [a, b].every((pid) => h.kernel.mounts.list(pid).length === 1));
    await end(h, a);
    stands.resolve();
    await until(() => h.requests.length === 1);
    expect(h.kernel.mounts.list(b)).toMatchObject([{ type: "table", down: null }]);
    expect(table.attempts).toBe(1);
  });

  test("a process sees its own mount, and no other process's", async () => {
    const table = new Mountable();
    await using h = new KernelHarness({ model: silent, mounts: [table.type] });
    const a = await started(h, "a", { mounts: [one] });
    const b = await raw(h, { mounts: [{ ...one, name: "two" }] });
    expect(await h.kernel.files.open(b, `/mnt/table/${b.pid}-two/echo`, O_RDWR)).toBeNumber();
    const foreign = failure(h.kernel.files.open(b, `/mnt/table/${a}-one/echo`, O_RDWR));
    expect(await foreign).toMatchObject({ code: "NOT_FOUND" });
  });
});

describe("a mount without a user", () => {
  const keeps = (opening?: () => Promise<void>) => {
    const clock = new FakeClock();
    const table = new Mountable("table", { opening });
    const h = new KernelHarness({
      model: async () => says("done"),
      mounts: [table.type],
      clock,
      mountsKeptMs: 60_000,
    });
    return { clock, table, h };
  };

  test("stays open for the next run, and is closed a minute after its last one", async () => {
    const { clock, table, h } = keeps();
    await using _ = h;
    await h.run("a", { mounts: [one] });
    await clock.advance(59_000);
    await h.run("b", { mounts: [optional] });
    expect(h.requests[1]?.tools?.map(({ name }) => name)).toContain("table__one__Echo");
    await clock.advance(59_000);
    expect([table.attempts, table.open]).toEqual([1, 1]);
    await clock.advance(1_000);
    expect(table.open).toBe(0);
  });

  test("is closed with the run where it is the run's own", async () => {
    const { table, h } = keeps();
    await using _ = h;
    await h.run("a", { mounts: [{ ...one, shared: false }] });
    expect(table.open).toBe(0);
  });

  test("continues its start after the run, and is started again when that failed", async () => {
    let answers = Promise.withResolvers<void>();
    const { table, h } = keeps(() => answers.promise);
    await using _ = h;
    await h.run("a", { mounts: [optional] });
    answers.reject(new SyscallError("UNAVAILABLE", "no such package"));
    await until(() => h.kernel.mounts.size === 0);
    answers = Promise.withResolvers<void>();
    await h.run("b", { mounts: [optional] });
    answers.resolve();
    await until(() => table.open === 1);
    expect(table.attempts).toBe(2);
  });

  test("is one of sixteen at most, and is closed with the kernel", async () => {
    const { table, h } = keeps();
    await using _ = h;
    for (let i = 0; i < 20; i++) await h.run("a", { mounts: [{ ...one, config: { at: i } }] });
    await until(() => table.open === 16);
    await h.kernel.mounts.unmountAll();
    expect(table.open).toBe(0);
  });
});

describe("rights", () => {
  const list = (allowedTools: string[]): AgentInfo => agent({ allowedTools });

  test("naming a mount adds its tools to the agent's list", async () => {
    const table = new Mountable();
    await using h = new KernelHarness({
      model: script(calls(["table__one__Echo", {}]), says("done")),
      mounts: [table.type],
    });
    const { info } = await h.run("go", { mounts: [one] }, list([]));
    expect(info.allowed_tools).toEqual([]);
    const { records } = await h.runs.steps(info.uuid);
    expect(records[0]?.tool_calls[0]?.state).toBe("done");
  });

  test("a rule may name its tools, and a rule that matches none of them is an error", async () => {
    const table = new Mountable();
    await using h = new KernelHarness({ model: script(says("a")), mounts: [table.type] });
    await h.run("go", { mounts: [one] }, list(["table__one__Echo"]));
    expect(await refusal(h, { mounts: [one] }, list(["table__one__Ecco"]))).toMatchObject({
      exit_code: 64,
      error: { code: "INVALID", message: expect.stringContaining('Did you mean "table__one__Echo"?') },
    });
    expect(table.open).toBe(0);
  });

  test("the spawner's list and a deny rule come first: a mount without an allowed tool is refused", async () => {
    const table = new Mountable();
    await using h = new KernelHarness({
      model: script(...["a", "b", "c", "d"].map(says)),
      mounts: [table.type],
    });
    const useless: Parameters<KernelHarness["spawn"]>[1][] = [
      { allow: ["Plan"] },
      { deny: ["table__one__*"] },
    ];
    for (const more of useless) {
      expect((await refusal(h, { mounts: [one], ...more })).error).toMatchObject({ code: "PERMISSION" });
      expect(table.open).toBe(0);
      const { events } = await h.run("go", { mounts: [{ ...one, required: false }], ...more });
      expect(events.filter(({ event }) => event === "notice")).toHaveLength(1);
      expect(h.requests.at(-1)?.tools?.map(({ name }) => name)).not.toContain("table__one__Echo");
      const opened = table.attempts;
      const offered = await h.run("go", { mounts: [{ ...one, required: false, offered: true }], ...more });
      expect(offered.events.filter(({ event }) => event === "notice")).toEqual([]);
      expect(table.attempts).toBe(opened);
    }
  });

  test("a child has it only if its parent has", async () => {
    const table = new Mountable();
    await using h = new KernelHarness({ model: silent, mounts: [table.type] });
    const without = await h.spawn("without", {}, list(["Plan"]));
    const refused = await refusal(h, { parentPid: without, mounts: [one] });
    expect(refused.error).toMatchObject({ code: "PERMISSION" });
    const parentPid = await started(h, "with", { mounts: [one] }, list(["Plan"]));
    const child = await started(h, "child", { parentPid, mounts: [one] }, list([]));
    expect(h.kernel.mounts.list(child)).toHaveLength(1);
    expect(table.open).toBe(1);
  });

  test("an unmount undoes exactly the mount's changes", async () => {
    const table = new Mountable();
    await using h = new KernelHarness({ model: silent, mounts: [table.type] });
    for (const allowedTools of [["Plan"], ["*"], ["Plan", "table__one__*"]]) {
      const pid = await h.spawn("go", {}, list(allowedTools));
      const before = h.kernel.processes.info(pid);
      const path = await h.kernel.mounts.mount(pid, one);
      expect(h.kernel.processes.info(pid).allowed_tools).toContain("table__one__Echo");
      await h.kernel.mounts.unmount(pid, path);
      const { permissions, allowed_tools, allowed_devices } = h.kernel.processes.info(pid);
      expect({ permissions, allowed_tools, allowed_devices }).toEqual({
        permissions: before.permissions,
        allowed_tools: before.allowed_tools,
        allowed_devices: before.allowed_devices,
      });
    }
  });
});

describe("rights of a tree", () => {
  test("a child loses the right that its parent loses", async () => {
    const table = new Mountable();
    await using h = new KernelHarness({ model: silent, mounts: [table.type] });
    const parentPid = await started(h, "parent", { mounts: [one] }, agent({ allowedTools: ["Plan"] }));
    const child = await started(h, "child", { parentPid, mounts: [one] }, agent({ allowedTools: [] }));
    const tools = () => h.kernel.processes.info(child).allowed_tools;
    expect(tools()).toEqual(["table__one__Echo"]);
    await h.kernel.mounts.unmount(parentPid, `/mnt/table/${parentPid}-one`);
    expect(tools()).toEqual([]);
    await h.kernel.mounts.mount(parentPid, one);
    expect(tools()).toEqual(["table__one__Echo"]);
  });

  test("the spawner's own list is saved unchanged: mounts add nothing to it after a resume either", () => {
    const facts = { tools: [], devices: [] };
    const rights = Permissions.of({ allow: [], deny: [], ...facts }).fixed();
    const again = Permissions.from(rights.record(), facts).withMount("/mnt/x", ["/mnt/x"]);
    expect(again.covers({ tool: null, path: "/mnt/x" })).toBe(false);
    const open = Permissions.of({ allow: [], deny: [], ...facts }).withMount("/mnt/x", ["/mnt/x"]);
    expect(open.covers({ tool: null, path: "/mnt/x" })).toBe(true);
  });
});

describe("a live process", () => {
  test("the model gets a table's new tools and a notice of what came and went; a removed tool fails", async () => {
    const table = new Mountable();
    const steps: (() => void)[] = [
      () => table.tables[0]?.change(echo("More")),
      () => table.tables[0]?.change(echo("More")),
    ];
    await using h = new KernelHarness({
      mounts: [table.type],
      model: async (request) => {
        const turn = request.messages.filter(({ role }) => role === "assistant").length;
        steps[turn]?.();
        await settled();
        if (turn === 0) return calls(["table__one__Echo", {}]);
        if (turn === 1) return calls(["table__one__More", {}]);
        return says("done");
      },
    });
    const { info } = await h.run("go", { mounts: [one] });
    const { records } = await h.runs.steps(info.uuid);
    expect(records[0]?.tool_calls[0]).toMatchObject({ state: "failed", error_code: "NOT_FOUND" });
    expect(records[1]?.tool_calls[0]).toMatchObject({ state: "done" });
    const names = h.requests.map(({ tools }) => tools?.map(({ name }) => name) ?? []);
    expect(names[1]).toEqual([...(names[0] ?? []), "table__one__More"]);
    const notices = h.requests.at(-1)?.messages.filter(({ content }) => content.includes("New tools: "));
    expect(notices).toHaveLength(1);
    expect(notices?.[0]?.content).toContain("New tools: table__one__More. Removed tools: table__one__Echo.");
  });

  test("an unmount closes the files it has open there", async () => {
    const table = new Mountable();
    await using h = new KernelHarness({ model: silent, mounts: [table.type] });
    const proc = await raw(h);
    const path = await h.kernel.mounts.mount(proc.pid, one);
    await h.kernel.files.open(proc, `${path}/echo`, O_RDWR);
    expect(proc.fds.size).toBe(1);
    await h.kernel.mounts.unmount(proc.pid, path);
    expect(proc.fds.size).toBe(0);
    expect(await failure(h.kernel.mounts.unmount(proc.pid, path))).toMatchObject({ code: "NOT_FOUND" });
  });
});

describe("a mount that ends by itself", () => {
  test("answers UNAVAILABLE until it is back, at growing intervals; after too many failures it restarts on demand", async () => {
    const clock = new FakeClock();
    const table = new Mountable();
    await using h = new KernelHarness({ model: silent, mounts: [table.type], clock });
    const proc = await raw(h, { mounts: [one] });
    const { pid } = proc;
    const open = () => h.kernel.files.open(proc, `/mnt/table/${pid}-one/echo`, O_RDWR);
    const down = () => h.kernel.mounts.list(pid)[0]?.down;
    const delays: number[] = [];
    for (let n = 0; n < 3; n++) {
      table.tables.at(-1)?.end("it broke.");
      await until(() => down()?.includes("It restarts in") === true);
      expect(await failure(open())).toMatchObject({
        code: "UNAVAILABLE",
        message: expect.stringContaining("table one is down: it broke."),
        retryAfterMs: expect.any(Number),
      });
      const wait = clock.waits[0] ?? 0;
      delays.push(wait);
      await clock.advance(wait);
      await until(() => down() === null);
      expect(table.open).toBe(1);
    }
    expect(delays).toEqual(delays.toSorted((a, b) => a - b));
    expect(new Set(delays).size).toBeGreaterThan(1);
    table.tables.at(-1)?.end("it broke again.");
    await until(() => down()?.includes("is not restarted for now") === true);
    expect(clock.pending).toBe(0);
    await clock.advance(30_000);
    expect(await failure(open())).toMatchObject({ code: "UNAVAILABLE" });
    expect(table.tables).toHaveLength(4);
    await clock.advance(40_000);
    expect(await failure(open())).toMatchObject({ code: "UNAVAILABLE" });
    await clock.advance(clock.waits[0] ?? 0);
    await until(() => down() === null);
    expect(table.open).toBe(1);
  });

  test("its programs are ended before it is opened again", async () => {
    const pids: number[] = [];
    const table = new Mountable("table", {
      opening: async (_signal, context) => {
        const child = await context.exec?.({ argv: ["sleep", "600"], life: "process" });
        pids.push(child?.pid ?? 0);
        if (pids.length > 1) expect(isAlive(pids[0] ?? 0)).toBe(false);
      },
    });
    await using h = new KernelHarness({ model: silent, mounts: [table.type] });
    const pid = await started(h, "go", { mounts: [one] });
    table.tables[0]?.end("gone");
    await until(() => pids.length === 2 && h.kernel.mounts.list(pid)[0]?.down === null);
    await end(h, pid);
    expect(pids.map(isAlive)).toEqual([false, false]);
  });

  test("an unmount that fails or hangs does not stop a process from ending", async () => {
    const clock = new FakeClock();
    for (const unmounting of [() => new Promise<void>(() => {}), () => Promise.reject(new Error("stuck"))]) {
      const table = new Mountable("table", { unmounting });
      await using h = new KernelHarness({ model: silent, mounts: [table.type], clock });
      const pid = await started(h, "go", { mounts: [one] });
      h.kernel.processes.kill(pid, 1);
      const waited = h.kernel.processes.wait(pid);
      await until(() => table.tables[0]?.unmounted === true);
      await clock.advance(5_000);
      expect(await waited).toMatchObject({ code: 143 });
      expect(h.warnings.join("\n")).toMatch(/did not unmount it within 5000 ms|stuck/);
    }
  });
});

describe("a project's mount", () => {
  test("is visible to every process of the project, live ones too, and to no other project", async () => {
    const table = new Mountable();
    const turns = new Map<string, PromiseWithResolvers<void>>();
    const model: Model = async (request, signal) => {
      const turn = Promise.withResolvers<void>();
      if (request.messages.length === 1) {
        signal.addEventListener("abort", () => turn.reject(signal.reason), { once: true });
        turns.set(request.intent, turn);
        await turn.promise;
        return calls(["Plan", { steps: ["x"] }]);
      }
      return says("done");
    };
    await using h = new KernelHarness({ model, mounts: [table.type] });
    const scope = () => ({ of: "project" as const, ...h.opts() });
    const live = await h.spawn("live");
    const other = await h.spawn("other", {
      project: { id: "other", dir: h.project, dataDir: h.dataDir, trusted: true },
    });
    await until(() => turns.size === 2);
    const path = await h.kernel.mounts.mountShared(scope(), one);
    expect(path).toBe("/mnt/table/one");
    for (const turn of turns.values()) turn.resolve();
    await Promise.all([h.follow(live), h.follow(other)]);
    const second = (intent: string) =>
      h.requests.filter((request) => request.intent === intent)[1]?.tools?.map(({ name }) => name);
    expect(second("live")).toContain("table__one__Echo");
    expect(second("other")).not.toContain("table__one__Echo");
    const later = await h.spawn("later");
    await until(() => turns.has("later"));
    expect(h.requests.at(-1)?.tools?.map(({ name }) => name)).toContain("table__one__Echo");
    expect(table.open).toBe(1);
    const { project } = scope();
    h.leases--; // That scope was only looked at.
    await h.kernel.mounts.unmountShared({ of: "project", project }, path);
    expect(table.open).toBe(0);
    h.kernel.processes.kill(later, 2);
    await h.kernel.processes.wait(later);
  });

  test("a process that names it gets the same one, at its own path and with its rights", async () => {
    const table = new Mountable();
    await using h = new KernelHarness({ model: silent, mounts: [table.type] });
    await h.kernel.mounts.mountShared({ of: "user", ...h.opts() }, one);
    expect(h.kernel.mounts.services({ id: "p" }, "table")).toEqual(["one"]);
    const pid = await started(h, "go", { mounts: [{ ...one, config: {} }] }, agent({ allowedTools: [] }));
    expect(h.kernel.mounts.list(pid)).toMatchObject([{ path: `/mnt/table/${pid}-one` }]);
    expect(h.kernel.processes.info(pid).allowed_tools).toEqual(["table__one__Echo"]);
    expect(table.attempts).toBe(1);
    await end(h, pid);
    expect(table.open).toBe(1);
  });

  test("the kernel's end unmounts it", async () => {
    const table = new Mountable();
    await using h = new KernelHarness({ model: silent, mounts: [table.type] });
    await h.kernel.mounts.mountShared({ of: "user", ...h.opts() }, one);
    await h.kernel.shutdown();
    expect(table.open).toBe(0);
    const late = failure(h.kernel.mounts.mountShared({ of: "user", ...h.opts() }, one));
    expect(await late).toMatchObject({ code: "CLOSED" });
  });
});

describe("random orders of events", () => {
  for (const seed of [1, 2, 3, 4, 5, 6, 7, 8]) {
    test(`seed ${seed}: everything that was opened is closed once, and nothing stays open`, async () => {
      const random = seeded(seed);
      const pick = <T>(all: readonly T[]): T | undefined => all[Math.floor(random() * all.length)];
      const table = new Mountable("table", {
        opening: async () => {
          for (let n = random() * 4; n > 0; n--) await settled();
          if (random() < 0.2) throw new SyscallError("UNAVAILABLE", "not today");
        },
      });
      await using h = new KernelHarness({ model: silent, mounts: [table.type] });
      const live: PID[] = [];
      const doing: Promise<unknown>[] = [];
      const request = (): MountRequest => ({
        type: "table",
        name: pick(["a", "b", "c"]) ?? "a",
        config: { n: Math.floor(random() * 2) },
        shared: random() < 0.7,
        required: random() < 0.5,
        // Real time: far more than a busy machine takes.
        timeoutMs: 60_000,
      });
      for (let step = 0; step < 120; step++) {
        const pid = pick(live) ?? 0;
        const what = random();
        if (live.length < 4 || what < 0.2) {
          const spawned = h.spawn(`p${step}`, { mounts: [request()] });
          doing.push(spawned.then((at) => live.push(at), isRefusal));
        } else if (what < 0.5) doing.push(h.kernel.mounts.mount(pid, request()).catch(isRefusal));
        else if (what < 0.7) {
          const path = `/mnt/table/${pid}-${pick(["a", "b", "c"])}`;
          doing.push(h.kernel.mounts.unmount(pid, path).catch(isRefusal));
        } else if (what < 0.8) pick(table.tables.filter(({ unmounted }) => !unmounted))?.end("it broke");
        else if (what < 0.9) pick(table.tables)?.change(random() < 0.5 ? echo("Echo", "More") : {});
        else if (live.length > 0) {
          live.splice(live.indexOf(pid), 1);
          // One whose mount failed has ended.
          if (h.kernel.processes.listProcs().some((proc) => proc.pid === pid))
            h.kernel.processes.kill(pid, 2);
        }
        if (random() < 0.5) await settled();
      }
      await Promise.all(doing);
      await h.kernel.shutdown({ now: true });
      await until(() => table.open === 0);
      expect(h.kernel.mounts.size).toBe(0);
    });
  }
});

/** A process without a model, in the test's hands. */
async function raw(h: KernelHarness, more: Partial<SpawnOpts> = {}): Promise<Process> {
  const started = Promise.withResolvers<Process>();
  const task: Task = async (proc) => {
    started.resolve(proc);
    await new Promise((resolve) => proc.signal.addEventListener("abort", resolve, { once: true }));
    return { kind: "finished" };
  };
  await h.kernel.processes.spawnTask("command", task, "raw", null, { ...h.opts(more), provider: null });
  return started.promise;
}

function isRefusal(thrown: unknown): void {
  const expected = ["UNAVAILABLE", "INVALID", "NOT_FOUND", "CLOSED", "CANCELLED"];
  if (thrown instanceof SyscallError && expected.includes(thrown.code)) return;
  throw thrown;
}

async function end(h: KernelHarness, pid: PID): Promise<void> {
  h.kernel.processes.kill(pid, 2);
  await h.kernel.processes.wait(pid);
}
