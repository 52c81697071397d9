import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { chmodSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { until } from "../../support/until.ts";
import { Machine } from "../support/machine.ts";
import { bash, calls, type Scene, says } from "../support/scenes.ts";
import { RawClient } from "../support/wire.ts";

/**
 * The seeds' own client: every method with the fields of the seeds' protocol document and no others, and every answer
 * read by the fields that the document promises. Numbers are its sections.
 */

setDefaultTimeout(60_000);

/** 5.4, 5.7: the payloads as the document writes them. */
const WRITE = calls(["Write", { path: "note.txt", content: "held\n" }]);
const HELD = bash("touch held; until test -e go; do sleep 0.02; done");
const BOOK: Record<string, Scene[]> = {
  "Analyze code": [WRITE, says("Analysis results...")],
  "Hold on": [HELD, says("done")],
};

/** A machine whose daemon has its key and address from the user's file, as no client brings them. */
async function machineWithKeys(): Promise<Machine> {
  const machine = new Machine();
  await machine.play(BOOK);
  const { OPENAI_API_KEY, OPENAI_BASE_URL } = machine.env;
  const keys = machine.write(
    join(machine.configDir, "env"),
    `OPENAI_API_KEY=${OPENAI_API_KEY}\nOPENAI_BASE_URL=${OPENAI_BASE_URL}\n`,
  );
  chmodSync(keys, 0o600);
  for (const name of Object.keys(machine.env))
    if (/OPENAI|ANTHROPIC|G\w*_BASE|GEMINI|RNIX_/.test(name)) delete machine.env[name];
  await machine.ok(["daemon", "start"]);
  return machine;
}

const Int = z.int();
const Ok = <T extends z.ZodType>(payload: T) => z.looseObject({ ok: z.literal(true), payload });

/** 5.5, ProgressPayload. */
const Progress = z.discriminatedUnion("event", [
  z.looseObject({
    event: z.literal("spawn"),
    pid: Int,
    intent: z.string(),
    provider: z.string().min(1),
    model: z.string().min(1),
  }),
  z.looseObject({ event: z.literal("step"), pid: Int, step: Int, total: Int.nullable() }),
  z.looseObject({ event: z.enum(["activity", "child", "message", "notice", "retry", "usage"]), pid: Int }),
]);
const Complete = z.looseObject({
  event: z.literal("complete"),
  pid: Int,
  result: z.string().nullable(),
  exit_code: Int,
  exit_reason: z.string(),
  tokens_used: Int,
});

/** 5.5, SyscallEventWire. */
const SyscallEvent = z.looseObject({
  timestamp_ms: Int.nonnegative(),
  pid: Int,
  syscall: z.string(),
  args: z.record(z.string(), z.unknown()),
  error: z.string().optional(),
  duration_ms: z.number().nonnegative(),
});

/** 1.2, ListProcs, and 5.9. */
const ProcInfo = z.looseObject({
  pid: Int,
  ppid: Int,
  uuid: z.string(),
  state: z.string(),
  intent: z.string(),
  skills: z.array(z.string()),
  tokens_used: Int,
  created_at_ms: Int,
  ctx_id: Int,
  result: z.string().nullable(),
  allowed_devices: z.array(z.string()),
  provider: z.string(),
  model: z.string(),
  is_paused: z.boolean(),
  paused_at_ms: Int,
});
const Processes = Ok(z.looseObject({ processes: z.array(ProcInfo) }));

interface Started {
  pid: number;
  uuid: string;
  client: RawClient;
}

/** 5.7: sends a spawn and reads its answer. */
async function spawn(machine: Machine, payload: object): Promise<Started> {
  const client = await RawClient.connect(machine.socket);
  const { payload: answer } = Ok(z.looseObject({ pid: Int, uuid: z.string() })).parse(
    await client.ask("spawn", payload),
  );
  return { ...answer, client };
}

/** The rest of a spawn's stream: the events of the document, and the last one. */
async function untilComplete({ client, pid }: Started) {
  const progress: z.infer<typeof Progress>[] = [];
  for (;;) {
    const { type, payload } = await client.line();
    if (type === "progress") progress.push(Progress.parse(payload));
    if (type !== "complete") continue;
    await expect(client.line()).rejects.toThrow("closed the connection");
    client.destroy();
    expect(progress.every((one) => one.pid === pid)).toBe(true);
    return { progress, complete: Complete.parse(payload) };
  }
}

test("ping answers the version, and the connection serves further requests (5.4, 5.6)", async () => {
  await using machine = await machineWithKeys();
  const client = await RawClient.connect(machine.socket);
  Ok(z.looseObject({ version: z.string() })).parse(await client.ask("ping"));
  expect(Processes.parse(await client.ask("list_procs")).payload.processes).toEqual([]);
  await client.send('{"method":"ping"}\n');
  expect(await client.line()).toMatchObject({ ok: true });
  expect(await client.ask("kill", { pid: 1, signal: 1 })).toMatchObject({
    ok: false,
    error: { code: "NOT_FOUND", message: expect.any(String) },
  });
  client.destroy();
});

test("spawn with an intent, an agent, a model and max_steps streams to complete (5.4, 5.5, 5.7)", async () => {
  await using machine = await machineWithKeys();
  const started = await spawn(machine, {
    intent: "Analyze code",
    agent: "coder",
    model: "sonnet",
    max_steps: 10,
  });
  const { progress, complete } = await untilComplete(started);
  expect(progress[0]).toMatchObject({ event: "spawn", intent: "Analyze code", model: "sonnet" });
  expect(progress.filter(({ event }) => event === "step")).toMatchObject([
    { step: 1, total: 10 },
    { step: 2, total: 10 },
  ]);
  expect(complete).toMatchObject({ result: "Analysis results...", exit_code: 0, exit_reason: "completed" });

  // It works in a folder of its own, which the stream names; the user's home is not touched.
  const folder = join(machine.dataDir, "workspace");
  expect(progress).toContainEqual(
    expect.objectContaining({ event: "notice", text: expect.stringContaining(folder) }),
  );
  expect(machine.read(join(folder, "note.txt"))).toBe("held\n");

  const client = await RawClient.connect(machine.socket);
  const all = Processes.parse(await client.ask("list_all_procs")).payload.processes;
  expect(all).toMatchObject([{ pid: started.pid, uuid: started.uuid, result: "Analysis results..." }]);
  await recorded(client, started);
  client.destroy();
});

/** 5.3, 5.4: what is on disk of a run that has ended, by PID and by UUID. */
async function recorded(client: RawClient, { pid, uuid }: Started): Promise<void> {
  for (const target of [{ pid }, { uuid }]) {
    const steps = Ok(
      z.looseObject({
        steps: z.array(z.looseObject({ step: Int, action: z.string(), summary: z.string() })),
      }),
    );
    expect(steps.parse(await client.ask("list_steps", target)).payload.steps).toMatchObject([
      { step: 1, action: "tool_call" },
      { step: 2, action: "complete" },
    ]);
    const detail = Ok(
      z.looseObject({
        step: z.literal(1),
        ts: z.iso.datetime(),
        messages: z.array(
          z.looseObject({ role: z.enum(["system", "user", "assistant", "tool"]), content: z.string() }),
        ),
        tokens_used: Int,
        raw_response: z.string(),
        action: z.literal("tool_call"),
        summary: z.string(),
        tool_path: z.string(),
        tool_input: z.looseObject({ path: z.literal("note.txt") }),
        tool_result: z.string(),
        tool_error: z.null(),
      }),
    );
    detail.parse(await client.ask("get_step_detail", { ...target, step: 1 }));
    ProcInfo.parse(Ok(z.unknown()).parse(await client.ask("get_proc_detail", target)).payload);
    const events = Ok(z.looseObject({ events: z.array(SyscallEvent) }));
    const { payload } = events.parse(await client.ask("list_events", target));
    expect(payload.events.map(({ syscall }) => syscall)).toContain("Spawn");
  }
}

describe("signals and tracing", () => {
  test("attach_debug streams syscall events and ends with eof; a dead process is read from disk (5.5, 5.8)", async () => {
    await using machine = await machineWithKeys();
    const started = await spawn(machine, { intent: "Hold on" });
    const folder = join(machine.dataDir, "workspace");
    await until(() => machine.has(join(folder, "held")), "the held call");
    const live = await RawClient.connect(machine.socket);
    expect(await live.ask("attach_debug", { pid: started.pid })).toMatchObject({ ok: true });
    machine.write(join(folder, "go"), "");
    const first = await traced(live);
    expect(first.map(({ syscall }) => syscall)).toContain("Read");
    await untilComplete(started);
    const dead = await RawClient.connect(machine.socket);
    expect(await dead.ask("attach_debug", { pid: started.pid })).toMatchObject({ ok: true });
    expect((await traced(dead)).map(({ syscall }) => syscall)).toContain("Spawn");
  });

  test("signal_tree pauses by default, and by a number resumes and ends (5.4, 5.9)", async () => {
    await using machine = await machineWithKeys();
    const started = await spawn(machine, { intent: "Hold on" });
    const client = await RawClient.connect(machine.socket);
    expect(await client.ask("signal_tree", { pid: started.pid })).toMatchObject({
      ok: true,
      payload: { affected: 1 },
    });
    const [paused] = Processes.parse(await client.ask("list_procs")).payload.processes;
    expect(paused).toMatchObject({ is_paused: true });
    expect(paused?.paused_at_ms).toBeGreaterThan(0);
    expect(await client.ask("signal_tree", { uuid: started.uuid, signal: 5 })).toMatchObject({
      payload: { affected: 1 },
    });
    expect(Processes.parse(await client.ask("list_procs")).payload.processes).toMatchObject([
      { is_paused: false, paused_at_ms: 0 },
    ]);
    expect(await client.ask("kill", { pid: started.pid, signal: 9 })).toMatchObject({
      error: { code: "INVALID" },
    });
    expect(await client.ask("kill", { pid: started.pid, signal: 1 })).toMatchObject({ ok: true });
    expect((await untilComplete(started)).complete.exit_code).not.toBe(0);
    // Idempotent (1.2).
    expect(await client.ask("kill", { pid: started.pid, signal: 2 })).toMatchObject({ ok: true });
    client.destroy();
  });
});

test("resume {uuid} answers once, and the run goes on after its last step (5.4, 5.6)", async () => {
  await using machine = await machineWithKeys();
  const started = await spawn(machine, { intent: "Hold on" });
  const folder = join(machine.dataDir, "workspace");
  await until(() => machine.has(join(folder, "held")), "the held call");
  const client = await RawClient.connect(machine.socket);
  expect(await client.ask("suspend", { uuid: started.uuid })).toMatchObject({ ok: true });
  expect((await untilComplete(started)).complete).toMatchObject({ exit_code: 75 });
  machine.write(join(folder, "go"), "");

  const Resumed = Ok(z.looseObject({ pid: Int, uuid: z.literal(started.uuid), resumed_from_step: Int }));
  const { payload } = Resumed.parse(await client.ask("resume", { uuid: started.uuid }));
  expect(payload.pid).toBeGreaterThan(started.pid);
  expect(payload.resumed_from_step).toBe(1);
  // The same connection stays open.
  expect(await client.ask("wait", { uuid: started.uuid })).toMatchObject({
    payload: { exit_code: 0, result: "done" },
  });
  expect(await client.ask("resume", { uuid: started.uuid })).toMatchObject({ error: { code: "INVALID" } });
  client.destroy();
});

test("shutdown answers and closes the connection (5.6)", async () => {
  await using machine = await machineWithKeys();
  const client = await RawClient.connect(machine.socket);
  expect(await client.ask("shutdown")).toMatchObject({ ok: true });
  await expect(client.line()).rejects.toThrow("closed the connection");
  client.destroy();
});

async function traced(client: RawClient): Promise<z.infer<typeof SyscallEvent>[]> {
  const events: z.infer<typeof SyscallEvent>[] = [];
  for (;;) {
    const { type, payload } = await client.line();
    if (type === "eof") break;
    expect(type).toBe("syscall_event");
    events.push(SyscallEvent.parse(payload));
  }
  await expect(client.line()).rejects.toThrow("closed the connection");
  client.destroy();
  return events;
}
