import { describe, expect, spyOn, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Client, Stream } from "../../src/client/client.ts";
import type { StreamEvent } from "../../src/protocol/methods.ts";
import { History } from "../../src/server/records/history.ts";
import { RunStore } from "../../src/store/runs/run-store.ts";
import type { ProcInfo } from "../../src/store/runs/schema.ts";
import { answer } from "../store/samples.ts";
import { procInfo } from "../support/samples.ts";
import { until } from "../support/until.ts";
import { stepRecord } from "./support/fake-kernel.ts";
import { type Fixture, RUN, serve, TempDir } from "./support/fixture.ts";
import { refusal } from "./support/refusal.ts";

/** Reads a stream to its end in the background. */
const TS = "2026-01-01T00:00:02.000Z";

function collect(stream: AsyncIterable<StreamEvent>) {
  const events: StreamEvent[] = [];
  const ended = (async () => {
    for await (const event of stream) events.push(event);
  })();
  return { events, ended };
}

describe("from inside a run", () => {
  test.each([
    ["kill", "another client's", true],
    ["signal_tree", "another client's", true],
    ["suspend", "another client's", true],
    ["compact", "another client's", true],
    ["kill", "its own", false],
    ["signal_tree", "its own", false],
    ["suspend", "its own", false],
  ] as const)("%s of %s run", async (method, whose, refused) => {
    await using server = await serve("memory");
    const own = await server.detached();
    const other = await server.detached();
    const inside = await server.client(own.uuid);
    const { uuid } = whose === "its own" ? own : other;
    if (!refused) {
      expect(await inside.request(method, { uuid })).toMatchObject({ uuid });
      return;
    }
    expect(await refusal(inside.request(method, { uuid }))).toMatchObject({
      code: "PERMISSION",
      message: expect.stringContaining(own.uuid),
    });
    expect((await (await server.client()).request("show", { uuid })).state).toBe("running");
  });
});

describe("compact", () => {
  test("answers with the tokens before and after", async () => {
    await using server = await serve("memory");
    const { pid, uuid } = await server.detached();
    const client = await server.client();
    const answer = { pid, uuid, pre_tokens: 9000, post_tokens: 3000, summarised_by: "model" };
    expect(await client.request("compact", { pid })).toEqual({ ...answer, summarised_by: "model" });
  });

  test("is refused for the run itself, which would wait for its own end, and for an ended run", async () => {
    await using server = await serve("memory");
    const { uuid } = await server.detached();
    const inside = await server.client(uuid);
    expect(await refusal(inside.request("compact", { uuid }))).toMatchObject({ code: "INVALID" });
    const client = await server.client();
    await client.request("suspend", { uuid });
    expect(await refusal(client.request("compact", { uuid }))).toMatchObject({
      code: "INVALID",
      message: expect.stringContaining(`rnix resume ${uuid}`),
    });
  });
});

describe.if(process.platform === "linux")("the identity of a client", () => {
  test("is looked up once, at its first use, and is not what the client claims", async () => {
    await using server = await serve("socket");
    const own = await server.detached();
    const other = await server.detached();
    const looks: number[] = [];
    server.system.ownerOf = (pid) => {
      looks.push(pid);
      return { uuid: own.uuid };
    };
    const client = await server.client(other.uuid);
    await client.request("ping", {});
    expect(looks).toEqual([]);
    expect((await refusal(client.request("kill", { uuid: other.uuid }))).code).toBe("PERMISSION");
    expect((await client.request("kill", { uuid: own.uuid })).uuid).toBe(own.uuid);
    expect(looks).toEqual([process.pid]);
  });

  test.each(["unknown run", "other kernel", "gone"] as const)(
    "is refused what changes runs: %s",
    async (origin) => {
      await using server = await serve("socket");
      const { uuid } = await server.detached();
      server.system.ownerOf = () => origin;
      for (const ask of [
        (client: Client) => client.open("spawn", RUN),
        (client: Client) => client.request("kill", { uuid }),
        (client: Client) => client.request("shutdown", {}),
      ]) {
        expect((await refusal(ask(await server.client()))).code).toBe("PERMISSION");
      }
      expect((await (await server.client()).request("show", { uuid })).state).toBe("running");
    },
  );
});

describe("attach and wait", () => {
  test("are refused at once for the run itself, which would wait for its own end", async () => {
    await using server = await serve("memory");
    const { pid, uuid } = await server.detached();
    const inside = await server.client(uuid);
    const refused = { code: "INVALID", message: expect.stringContaining(`rnix show ${pid}`) };
    expect(await refusal(inside.open("attach", { uuid }))).toMatchObject(refused);
    expect(await refusal(inside.request("wait", { pid }))).toMatchObject(refused);
  });
});

describe("attach", () => {
  test("follows a live run from its current position to its end, for several clients", async () => {
    await using server = await serve("memory");
    const { pid, uuid } = await server.detached();
    const streams = await Promise.all(
      [1, 2].map(async () => (await server.client()).open("attach", { uuid })),
    );
    const followers = streams.map(collect);
    server.kernel.emit(pid, {
      event: "step",
      step: 3,
      total: null,
      tokens_used: 40,
      cost_usd: null,
      context_tokens: 30,
      context_window: 100,
    });
    server.kernel.emit(pid, {
      event: "retry",
      step: 3,
      attempt: 1,
      delay_ms: 500,
      left_ms: 9000,
      message: "429",
    });
    server.kernel.emit(pid, { event: "notice", text: "careful" });
    await server.kernel.finish(pid, { code: 0, reason: "completed", result: "ok" });
    for (const { events, ended } of followers) {
      await ended;
      expect(events.map((event) => ("payload" in event ? event.payload : null))).toEqual([
        expect.objectContaining({ event: "spawn", pid, uuid }),
        {
          event: "step",
          pid,
          uuid,
          step: 3,
          total: null,
          tokens_used: 40,
          cost_usd: null,
          context_tokens: 30,
          context_window: 100,
        },
        { event: "retry", pid, uuid, step: 3, attempt: 1, delay_ms: 500, left_ms: 9000, message: "429" },
        { event: "notice", pid, uuid, text: "careful" },
        expect.objectContaining({ event: "complete", result: "ok" }),
      ]);
    }
  });
});

describe("attach_debug", () => {
  test("streams syscalls as they are made, then eof", async () => {
    await using server = await serve("memory");
    const { pid, uuid } = await server.detached();
    const trace = collect(await (await server.client()).open("attach_debug", { pid }));
    const event = {
      timestamp_ms: 5,
      pid,
      syscall: "Open",
      args: { path: "/dev/fs" },
      result: 3,
      duration_ms: 1,
    };
    server.kernel.syscall(pid, event);
    await server.kernel.finish(pid, { code: 0, reason: "completed" });
    await trace.ended;
    expect(trace.events).toEqual([{ type: "syscall_event", payload: { ...event, uuid } }, { type: "eof" }]);
  });

  test("names in eof what a slow client missed", async () => {
    await using server = await serve("memory");
    const { pid } = await server.detached();
    const stream = await (await server.client()).open("attach_debug", { pid });
    const event = { timestamp_ms: 5, pid, syscall: "Read", args: {}, duration_ms: 1 };
    for (let i = 0; i < 1000; i++) server.kernel.syscall(pid, event);
    await server.kernel.finish(pid, { code: 0, reason: "completed" });
    const trace = collect(stream);
    await trace.ended;
    const last = trace.events.at(-1);
    const dropped = last?.type === "eof" ? (last.payload?.dropped ?? 0) : 0;
    expect([dropped > 0, trace.events.length - 1 + dropped]).toEqual([true, 1000]);
  });
});

describe("attach_log", () => {
  async function log(server: Fixture, pid: number, follow?: boolean): Promise<Stream<"attach_log">> {
    return (await server.client()).open("attach_log", { pid, ...(follow !== undefined && { follow }) });
  }

  const texts = (events: StreamEvent[]) =>
    events.map((event) =>
      event.type === "log_entry" ? `${event.payload.step} ${event.payload.text}` : event.type,
    );

  test("streams recorded entries, then live ones, each once", async () => {
    await using server = await serve("memory");
    const { pid } = await server.detached();
    server.kernel.publish(pid);
    server.kernel.step(pid, stepRecord(1, "one"));
    const reader = collect(await log(server, pid));
    await until(() => reader.events.length === 3);
    // Of events that are recorded and not emitted yet, the copies come later.
    server.kernel.emit(pid, { event: "log", entry: { n: 2, ts: TS, step: 1, kind: "text", text: "one" } });
    server.kernel.journal(pid, answer(2, "two"));
    server.kernel.emit(pid, {
      ...{ event: "retry", step: 2, attempt: 1, delay_ms: 500, left_ms: 9000, message: "429" },
    });
    await server.kernel.finish(pid, { code: 0, reason: "completed" });
    await reader.ended;
    expect(texts(reader.events)).toEqual([
      "1 one",
      '1 Read /dev/fs {"path":"a.txt"}',
      "1 contents",
      "2 two",
      "2 attempt 1 failed: 429; retry in 500ms",
      "1 completed (exit 0)",
      "eof",
    ]);
  });

  test("streams the open step from its journal, without the live duplicates", async () => {
    await using server = await serve("memory");
    const { pid } = await server.detached();
    server.kernel.publish(pid);
    server.kernel.journal(pid, answer(1, "thinking about it"));
    const reader = collect(await log(server, pid));
    await until(() => reader.events.length === 1);
    server.kernel.step(pid, stepRecord(1, "thinking about it"));
    await server.kernel.finish(pid, { code: 0, reason: "completed" });
    await reader.ended;
    expect(texts(reader.events)).toEqual([
      "1 thinking about it",
      '1 Read /dev/fs {"path":"a.txt"}',
      "1 contents",
      "1 completed (exit 0)",
      "eof",
    ]);
  });

  for (const read of [1, 2, 3, 4, 5, 6]) {
    test(`streams each entry once and in order when a step ends before read ${read}`, async () => {
      await using server = await serve("memory");
      const { pid } = await server.detached();
      server.kernel.publish(pid);
      server.kernel.step(pid, stepRecord(1, "one"));
      server.kernel.journal(pid, answer(2, "two"));
      let reads = 0;
      const before = (): void => {
        if (++reads !== read) return;
        server.kernel.step(pid, { ...stepRecord(2, "two"), tool_calls: [] });
        server.kernel.journal(pid, answer(3, "three"));
      };
      const { journalLines, steps, units } = RunStore.prototype;
      using _journal = spyOn(RunStore.prototype, "journalLines").mockImplementation(function (
        this: RunStore,
        ...args
      ) {
        before();
        return journalLines.apply(this, args);
      });
      using _steps = spyOn(RunStore.prototype, "steps").mockImplementation(function (
        this: RunStore,
        ...args
      ) {
        before();
        return steps.apply(this, args);
      });
      using _units = spyOn(RunStore.prototype, "units").mockImplementation(function (
        this: RunStore,
        ...args
      ) {
        before();
        return units.apply(this, args);
      });
      const reader = collect(await log(server, pid));
      await until(() => reads >= read && reader.events.length >= 5);
      await server.kernel.finish(pid, { code: 0, reason: "completed" });
      await reader.ended;
      const streamed = texts(reader.events).filter(
        (text) => !text.includes("Read") && !text.includes("contents"),
      );
      expect(streamed).toEqual(["1 one", "2 two", "3 three", "2 completed (exit 0)", "eof"]);
    });
  }

  test("without follow ends after the recorded entries", async () => {
    await using server = await serve("memory");
    const { pid } = await server.detached();
    server.kernel.step(pid, stepRecord(1, "one"));
    const reader = collect(await log(server, pid, false));
    await reader.ended;
    expect(texts(reader.events).at(-1)).toBe("eof");
    expect(server.kernel.processes.count).toBe(1);
    expect(server.kernel.watchers(pid)).toBe(0);
  });
});

describe("a process is found", () => {
  test("by a unique prefix of its UUID; an ambiguous one names the candidates", async () => {
    await using server = await serve("memory");
    const [first, second] = [await server.detached("echo a"), await server.detached()];
    const client = await server.client();
    await client.request("wait", { pid: first.pid });
    expect((await client.request("show", { uuid: second.uuid })).pid).toBe(second.pid);
    await server.kernel.finish(second.pid, { code: 0, reason: "completed" });
    expect((await client.request("show", { uuid: second.uuid.toUpperCase() })).pid).toBe(second.pid);
    const error = await refusal(client.request("show", { uuid: "00000000-0000-7000" }));
    expect(error.code).toBe("INVALID");
    expect([error.message.includes(first.uuid), error.message.includes(second.uuid)]).toEqual([true, true]);
  });
});

describe("lists", () => {
  test("page by PID, and leave out other projects", async () => {
    await using server = await serve("memory");
    for (let i = 0; i < 5; i++) await server.detached();
    const client = await server.client();
    const pids = async (payload: { after?: number; limit?: number; cwd?: string; all_projects?: boolean }) =>
      (await client.request("list_procs", payload)).processes.map(({ pid }) => pid);
    expect(await pids({})).toEqual([1, 2, 3, 4, 5]);
    expect(await pids({ after: 2, limit: 2 })).toEqual([3, 4]);
    expect(await pids({ cwd: "/w" })).toEqual([1, 2, 3, 4, 5]);
    expect(await pids({ cwd: "/elsewhere" })).toEqual([]);
    expect(await pids({ cwd: "/elsewhere", all_projects: true })).toEqual([1, 2, 3, 4, 5]);
  });

  test("with ended runs name one that can't be read, and hide no other", async () => {
    await using server = await serve("memory");
    const { pid } = await server.detached("echo a");
    const client = await server.client();
    await client.request("wait", { pid });
    const broken = join(server.dir, "steps/00000000-0000-7000-8000-00000000dead");
    mkdirSync(broken);
    writeFileSync(join(broken, "proc-info.json"), "{");
    const { processes, total, unreadable } = await client.request("list_all_procs", {});
    expect([processes.map((info) => info.pid), total]).toEqual([[pid], 1]);
    expect(unreadable.map(({ path }) => path)).toEqual([broken]);
  });
});

test("history reads the runs of every data folder, and shows one whose kernel has died as suspended", async () => {
  await using server = await serve("memory");
  using other = new TempDir();
  const { uuid } = await server.detached();
  const stores = [new RunStore(server.dir), new RunStore(other.path)];
  const history = new History({
    dataDirs: () => [other.path, server.dir],
    open: (dir) => stores.find((store) => store.dataDir === dir) ?? new RunStore(dir),
    kernelAlive: () => false,
  });
  const run = await history.byUuid(uuid);
  expect(run?.info).toMatchObject({ state: "suspended", exit_code: 75, exit_reason: "suspended" });
  expect((await history.byPid(1))?.info.uuid).toBe(uuid);
  expect((await history.list()).runs.map((info) => info.uuid)).toEqual([uuid]);
  expect(await history.byPid(2)).toBeUndefined();
});

test("history shows the usage of a run whose kernel died, separately for each of its processes", async () => {
  await using server = await serve("memory");
  const { pid, uuid } = await server.detached();
  const soFar = { tokens_used: 70, cost_usd: 0.5, steps_used: 3, elapsed_ms: 900 };
  server.kernel.step(pid, { ...stepRecord(1, "one"), so_far: soFar });
  const runs = new RunStore(server.dir);
  const history = new History({ dataDirs: () => [server.dir], open: () => runs, kernelAlive: () => false });
  expect((await history.byUuid(uuid))?.info).toMatchObject({
    ...soFar,
    steps: 1,
    usage: { input_tokens: 10 },
  });
  // Resumed by another kernel, which died too.
  server.kernel.step(pid, { ...stepRecord(2, "two"), so_far: { ...soFar, tokens_used: 90 } });
  (await runs.reopen(uuid)).info({ ...server.kernel.processes.info(pid), kernel: "another" });
  expect((await history.byUuid(uuid))?.info).toMatchObject({ steps: 2, tokens_used: 90 });
});

test("history shows the own usage of a fork whose kernel died", async () => {
  using dir = new TempDir();
  const runs = new RunStore(dir.path);
  const info = procInfo({ uuid: "00000000-0000-7000-8000-0000000f0003" });
  const record = runs.create(info.uuid);
  record.info(info);
  record.inherit([{ ...stepRecord(1, "one"), origin_uuid: "00000000-0000-7000-8000-0000000f0001" }]);
  const history = new History({ dataDirs: () => [dir.path], open: () => runs, kernelAlive: () => false });
  const none = { input_tokens: 0, output_tokens: 0, cached_tokens: 0 };
  expect((await history.byUuid(info.uuid))?.info).toMatchObject({
    state: "suspended",
    steps: 1,
    tool_calls: 0,
    tokens_used: 0,
    usage: none,
  });
});

test("an ended run is not live, also before it is reaped", async () => {
  await using server = await serve("memory");
  const client = await server.client();
  const { pid, uuid } = await server.detached();
  const live = await client.request("show", { uuid });
  expect([live.live, live.fds.length, live.context?.messages]).toEqual([true, 1, 1]);
  server.kernel.zombie(pid);
  const ended = await client.request("show", { pid });
  expect([ended.live, ended.fds, ended.context, ended.receipt?.exit_code]).toEqual([false, [], null, 0]);
  await server.kernel.finish(pid, { code: 0, reason: "completed" });
});

test("history shows a supervisor whose kernel died as killed, because it can't be resumed", async () => {
  using dir = new TempDir();
  const runs = new RunStore(dir.path);
  const info = procInfo({ uuid: "00000000-0000-7000-8000-0000000f0002", kind: "supervisor" });
  runs.create(info.uuid).info(info);
  const history = new History({ dataDirs: () => [dir.path], open: () => runs, kernelAlive: () => false });
  const run = await history.byUuid(info.uuid);
  expect(run?.info).toMatchObject({ state: "dead", exit_code: 137, exit_reason: "killed" });
});

/** A record of a kernel that is dead, of a process that is no agent. */
function recordOf(server: Fixture, more: Partial<ProcInfo>): string {
  const info = procInfo({ uuid: "00000000-0000-7000-8000-0000000f0003", pid: 901, ...more });
  new RunStore(server.dir).create(info.uuid).info(info);
  return info.uuid;
}

for (const [kind, name] of [
  ["supervisor", "supervisor"],
  ["command", "program"],
] as const) {
  test(`a ${name} is neither suspended nor resumed, and the error says why`, async () => {
    await using server = await serve("memory");
    const uuid = recordOf(server, {
      kind,
      state: "dead",
      exit_code: 1,
      exit_reason: "failed",
      ended_at_ms: 2,
    });
    const client = await server.client();
    expect(await refusal(client.request("suspend", { uuid }))).toMatchObject({
      code: "INVALID",
      message: `PID 901 is a ${name}: only the run of an agent can be suspended.`,
    });
    expect(await refusal(client.open("resume", { uuid, env: {} }))).toMatchObject({
      code: "INVALID",
      message: `PID 901 is a ${name}: only the run of an agent can be resumed.`,
    });
  });
}

test("a run that is killed while suspended no longer counts as suspended", async () => {
  await using server = await serve("memory");
  const { pid } = await server.detached();
  const suspend = server.kernel.lifecycle.suspend;
  server.kernel.lifecycle.suspend = async () => ({ code: 143, reason: "terminated" });
  const client = await server.client();
  expect(await refusal(client.request("suspend", { pid }))).toMatchObject({
    code: "INVALID",
    message: `PID ${pid} has ended (terminated): there is nothing to suspend.`,
  });
  server.kernel.lifecycle.suspend = suspend;
  await server.kernel.finish(pid, { code: 143, reason: "terminated" });
});

test("kill of an ended run answers that no signal was sent", async () => {
  await using server = await serve("memory");
  const { pid, uuid } = await server.detached();
  const client = await server.client();
  expect(await client.request("kill", { pid })).toEqual({ pid, uuid, affected: 1 });
  await client.request("wait", { pid });
  expect(await client.request("kill", { uuid })).toEqual({ pid, uuid, affected: 0 });
});

test.each(["kill", "signal_tree"] as const)("%s of a suspended run ends it, once", async (method) => {
  await using server = await serve("memory");
  const { pid, uuid } = await server.detached();
  const client = await server.client();
  await client.request("suspend", { pid });
  expect(await client.request(method, { pid, signal: 5 })).toEqual({ pid, uuid, affected: 0 });
  expect(await client.request(method, { pid, signal: 1 })).toEqual({
    pid,
    uuid,
    affected: 1,
    was_suspended: true,
  });
  expect(await client.request("wait", { uuid })).toMatchObject({ exit_reason: "by 1" });
  expect(await client.request(method, { pid, signal: 1 })).toEqual({ pid, uuid, affected: 0 });
});

test("a live or ended run is found by its earlier PIDs; a PID's current run comes first", async () => {
  await using server = await serve("memory");
  const { pid, uuid } = await server.detached();
  const client = await server.client();
  await client.request("suspend", { pid });
  const again = await (await server.client()).open("resume", { uuid, cwd: "/w" });
  const now = again.answer.pid;
  expect(await client.request("show", { pid })).toMatchObject({ pid: now, uuid });
  const other = await server.detached();
  await server.kernel.finish(now, { code: 0, reason: "completed" });
  expect(await client.request("wait", { pid })).toMatchObject({ pid: now, uuid });
  expect(await client.request("show", { pid: other.pid })).toMatchObject(other);
  expect((await refusal(client.request("show", { pid: 99 }))).code).toBe("NOT_FOUND");
});

test("the log of a program is its last output and how it ended", async () => {
  await using server = await serve("memory");
  const uuid = recordOf(server, {
    kind: "command",
    state: "dead",
    exit_code: 1,
    exit_reason: "failed",
    ended_at_ms: 2,
    result: "no port left\n",
  });
  const log = collect(await (await server.client()).open("attach_log", { uuid }));
  await log.ended;
  expect(log.events).toEqual([
    expect.objectContaining({ payload: expect.objectContaining({ kind: "text", text: "no port left\n" }) }),
    expect.objectContaining({ payload: expect.objectContaining({ text: "ended: failed (exit 1)" }) }),
    { type: "eof" },
  ]);
});

test("a run of another kernel can be shown, but not signalled", async () => {
  await using server = await serve("memory");
  const client = await server.client();
  const { pid, uuid } = await server.detached();
  const foreign = "00000000-0000-7000-8000-0000000f0001";
  const record = new RunStore(server.dir).create(foreign);
  record.info({ ...server.kernel.processes.info(pid), uuid: foreign, pid: 900, kernel: "another" });
  expect((await client.request("show", { uuid: foreign })).live).toBe(false);
  for (const method of ["kill", "signal_tree", "suspend", "wait"] as const) {
    expect((await refusal(client.request(method, { pid: 900 }))).code).toBe("UNAVAILABLE");
  }
  expect((await client.request("show", { uuid })).live).toBe(true);
});

describe("resume", () => {
  test("answers the new PID and after which step, and streams the run to its end", async () => {
    await using server = await serve("memory");
    const { pid, uuid } = await server.detached();
    server.kernel.step(pid, stepRecord(1, "one"));
    await (await server.client()).request("suspend", { pid });
    const stream = await (await server.client()).open("resume", { uuid, input: "echo two", stream: true });
    expect(stream.answer).toEqual({ pid: pid + 1, uuid, resumed_from_step: 1 });
    const { events, ended } = collect(stream);
    await ended;
    expect(events.map((event) => ("payload" in event ? event.payload : null))).toEqual([
      expect.objectContaining({ event: "spawn", pid: pid + 1, uuid }),
      { event: "notice", pid: pid + 1, uuid, text: "as it was" },
      expect.objectContaining({ event: "step", step: 2 }),
      expect.objectContaining({ step: 2, text: "two" }),
      expect.objectContaining({ event: "complete", pid: pid + 1, uuid, result: "two" }),
    ]);
  });

  test("without a stream it answers once, and the connection serves the next request; the old PID names the run", async () => {
    await using server = await serve("memory");
    const { pid, uuid } = await server.detached();
    const client = await server.client();
    await client.request("suspend", { pid });
    const { answer } = await client.open("resume", { pid });
    expect(answer).toEqual({ pid: pid + 1, uuid, resumed_from_step: 0, notices: ["as it was"] });
    expect((await client.request("show", { uuid })).live).toBe(true);
  });

  test("forks a live run: the answer names its origin", async () => {
    await using server = await serve("memory");
    const { pid, uuid } = await server.detached();
    server.kernel.step(pid, stepRecord(1, "one"));
    server.kernel.step(pid, stepRecord(2, "two"));
    const stream = await (await server.client()).open("resume", {
      uuid,
      env: {},
      fork: true,
      stream: true,
      from_step: 1,
      input: "echo other",
    });
    const { answer } = stream;
    expect(answer).toMatchObject({ pid: pid + 1, origin_uuid: uuid, resumed_from_step: 1 });
    expect(answer.uuid).not.toBe(uuid);
    await collect(stream).ended;
    expect((await (await server.client()).request("show", { uuid })).live).toBe(true);
  });

  test("is refused inside a run, for an unknown run, from a step without a fork, and with an invalid limit", async () => {
    await using server = await serve("memory");
    const { uuid } = await server.detached();
    const inside = await server.client(uuid);
    expect((await refusal(inside.open("resume", { uuid, env: {} }))).code).toBe("PERMISSION");
    const client = await server.client();
    expect((await refusal(client.open("resume", { uuid: "beef", env: {} }))).code).toBe("NOT_FOUND");
    const another = await server.client();
    expect((await refusal(another.open("resume", { uuid, env: {}, max_steps: 0 }))).code).toBe("INVALID");
    const third = await server.client();
    expect(await refusal(third.open("resume", { uuid, env: {}, from_step: 1 }))).toMatchObject({
      code: "INVALID",
      message: expect.stringContaining("needs fork"),
    });
  });
});

test("questions are neither listed nor answered inside a run, and an unknown one has a clear answer", async () => {
  await using server = await serve("memory");
  const { uuid } = await server.detached();
  const answer = { request_id: "beef", answers: [{ choices: ["yes"] }] };
  const inside = await server.client(uuid);
  expect((await refusal(inside.request("list_asks", {}))).code).toBe("PERMISSION");
  expect((await refusal(inside.request("answer_user", answer))).code).toBe("PERMISSION");
  const client = await server.client();
  expect(await client.request("list_asks", {})).toEqual({ asks: [] });
  expect(await refusal(client.request("answer_user", answer))).toMatchObject({
    code: "NOT_FOUND",
    message: expect.stringContaining("No run waits for question beef"),
  });
});
