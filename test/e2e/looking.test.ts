import { expect, test } from "bun:test";
import { z } from "zod";
import { ProcInfo, StepRecord, SyscallEventWire } from "../../src/store/runs/schema.ts";
import { Machine } from "./support/machine.ts";
import { bash, calls, says } from "./support/scenes.ts";
import { Receipt, receiptOf, recordOf } from "./support/verdict.ts";

const BEGIN = { text: "I begin.", ...bash("echo begun") };
const LOOK = calls(["Read", { path: "none.txt" }]);
const END = says("It is built.");

test("a detached run can be shown, followed and waited for while it runs", async () => {
  await using machine = new Machine();
  const held = Promise.withResolvers<void>();
  let seen = false;
  const model = await machine.play({
    "build it": [
      BEGIN,
      async () => {
        await held.promise;
        return LOOK;
      },
      // It prints until the commands below have seen it.
      ({ index }) => (seen ? END : bash(`sleep 0.05; echo ${index}`)),
    ],
  });

  // However late the commands below start.
  const detached = await machine.run(["spawn", "build it", "--detach", "--max-steps", "unlimited"]);
  expect(detached.code).toBe(0);
  const [pid = "", uuid = ""] = detached.stdout.trim().split(" ");
  expect(detached.stdout).toBe(`${pid} ${uuid}\n`);
  await model.arrived(2);

  const list = await json(machine, z.array(ProcInfo), "ps", "--json");
  expect(list).toMatchObject([{ pid: Number(pid), uuid, state: "running", intent: "build it", steps: 2 }]);
  expect((await machine.run(["ps"])).stdout).toMatch(/^PID +STATE +AGENT .*\n1 +running +default +m +2 /);

  const shown = await json(machine, Detail, "show", pid, "--json");
  expect(shown).toMatchObject({ uuid, live: true, receipt: null, exit_code: null, context: { messages: 3 } });
  expect(shown.fds).toEqual([{ fd: 3, path: "/dev/llm/openai" }]);

  expect(await json(machine, z.unknown(), "steps", pid, "--json")).toMatchObject([
    { step: 1, action: "tool_call", tool_path: "/dev/shell", has_error: false, token_count: 15 },
  ]);
  expect((await machine.run(["log", pid])).stdout).toContain("Bash echo begun");
  expect((await machine.run(["wait", pid, "--timeout", "100ms"])).code).toBe(1);

  const log = machine.start(["log", pid, "-f"]);
  const strace = machine.start(["strace", pid, "--json"]);
  const waiting = machine.start(["wait", uuid.slice(0, 13), "--json"]);
  const attached = machine.start(["attach", pid, "--json"]);
  held.resolve();
  await Promise.all([log.stdout.has(/begun/), strace.stdout.has(/"Open"/), attached.stdout.has(/log_entry/)]);
  seen = true;

  const ended = await Promise.all([log.done, strace.done, waiting.done, attached.done]);
  expect(ended.map(({ code }) => code)).toEqual([0, 0, 0, 0]);
  const [followed, traced, waited, watched] = ended.map(({ stdout }) => stdout);
  expect(followed).toMatch(/begun[\s\S]*Read[\s\S]*It is built\./);
  const syscalls = lines(traced).map((event) => SyscallEventWire.parse(event));
  expect(syscalls).toContainEqual(
    expect.objectContaining({
      syscall: "Open",
      args: { path: "/dev/shell", flags: 2, tool: "Bash", rule: "*" },
    }),
  );
  expect(syscalls.at(-1)).toMatchObject({ syscall: "Close", args: { fd: 3 } });
  expect(Receipt.parse(JSON.parse(waited ?? ""))).toMatchObject({
    uuid,
    exit_code: 0,
    result: "It is built.",
  });
  expect(lines(watched).at(-1)).toMatchObject({ type: "complete", payload: { uuid, exit_code: 0 } });
});

test("an ended run shows the same from disk, also in a daemon that did not run it", async () => {
  await using machine = await Machine.playing({ "build it": [BEGIN, LOOK, END] });
  const checked = ["--check", "test -f x", "--check-attempts", "1"];
  const spawned = await machine.run(["spawn", "build it", "--output", "json", ...checked]);
  const receipt = receiptOf(spawned);
  const { uuid } = receipt;
  expect(receipt).toMatchObject({ pid: 1, exit_reason: "check_failed", result: "It is built." });

  for (const daemon of ["the one that ran it", "another"]) {
    expect(await json(machine, z.array(ProcInfo), "ps", "--json"), daemon).toEqual([]);
    const [info] = await json(machine, z.array(ProcInfo), "ps", "-a", "--json");
    expect(info).toEqual(recordOf(machine, uuid));
    expect((await machine.run(["ps", "-a"])).stdout).toContain("check_failed (exit 1)");

    const shown = await json(machine, Detail, "show", uuid, "--json");
    expect(shown).toMatchObject({ live: false, fds: [], receipt, state: "dead" });
    expect((await machine.run(["show", "1"])).stdout).toContain("1 check_failed");

    const waited = await machine.run(["wait", "1"]);
    expect(waited).toMatchObject({ code: 1, stdout: "It is built.\n" });
    expect(waited.stderr).toContain("check_failed");

    expect(await json(machine, z.unknown(), "steps", "1", "--json")).toMatchObject([
      { step: 1, action: "tool_call", summary: "Bash" },
      { step: 2, action: "tool_call", tool_path: "/dev/fs", has_error: true },
      { step: 3, action: "complete", summary: "It is built." },
    ]);
    const step = await json(machine, z.unknown(), "steps", "1", "2", "--json");
    expect(StepRecord.parse(step)).toMatchObject({
      step: 2,
      tool_calls: [{ name: "Read", state: "failed" }],
    });
    expect(step).toMatchObject({ tool_path: "/dev/fs", tool_error: expect.stringContaining("none.txt") });
    const absent = await machine.run(["steps", "1", "4"]);
    expect(absent).toMatchObject({ code: 64, stdout: "" });

    const log = (await machine.run(["log", "1"])).stdout;
    expect(log).toMatch(
      /Bash echo begun\n +begun\n[\s\S]*Read[\s\S]*none\.txt[\s\S]*It is built\.\ncheck test -f x: failed \(exit 1\)\n.*check_failed \(exit 1\)/,
    );
    const syscalls = lines((await machine.run(["strace", "1", "--json"])).stdout);
    const calls = syscalls
      .map((event) => SyscallEventWire.parse(event))
      .filter(({ syscall }) => syscall === "Open");
    expect(calls.map(({ args }) => args.path)).toEqual(["/dev/llm/openai", "/dev/shell", "/dev/fs"]);

    await machine.ok(["daemon", "stop"]);
  }
});

test("PID 0 is the kernel: strace shows its own syscalls, past and new, until it ends", async () => {
  await using machine = await Machine.playing({ "build it": [END] });
  await machine.run(["spawn", "build it"]);
  await machine.ok(["ps"]);
  const strace = machine.start(["strace", "0", "--json"]);
  await strace.stdout.has(/"ListProcs"/);
  await machine.ok(["ps"]);
  await strace.stdout.has(/"ListProcs"[\s\S]*"ListProcs"/);
  await machine.ok(["daemon", "stop"]);
  const { stdout, code } = await strace.done;
  expect(code).toBe(0);
  expect(lines(stdout).map((event) => SyscallEventWire.parse(event).pid)).not.toContain(1);
});

test("a PID that does not exist is an error that names it", async () => {
  await using machine = new Machine();
  for (const command of ["show", "log", "steps", "strace", "wait", "attach", "kill", "pause", "continue"]) {
    const { code, stdout, stderr } = await machine.run([command, "99"]);
    expect({ command, code, stdout }).toEqual({ command, code: 64, stdout: "" });
    expect(stderr).toContain("99");
  }
});

const Detail = ProcInfo.unwrap().extend({
  live: z.boolean(),
  fds: z.array(z.object({ fd: z.number(), path: z.string() })),
  context: z.object({ messages: z.number() }).nullable(),
  receipt: Receipt.nullable(),
});

async function json<T>(machine: Machine, schema: z.ZodType<T>, ...args: string[]): Promise<T> {
  const { stdout, code } = await machine.run(args);
  expect(code).toBe(0);
  return schema.parse(JSON.parse(stdout));
}

function lines(text = ""): unknown[] {
  return text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
}
