import { expect, test } from "bun:test";
import { z } from "zod";
import { Machine } from "../support/machine.ts";
import { bash, calls, says } from "../support/scenes.ts";
import { Receipt, receiptOf, verdict } from "../support/verdict.ts";

const Call = z.strictObject({
  id: z.string().min(1),
  name: z.string(),
  path: z.string().nullable(),
  input: z.record(z.string(), z.unknown()),
  state: z.string(),
  result: z.string().nullable(),
  error: z.string().nullable(),
  error_code: z.string().nullable(),
  started_at: z.iso.datetime(),
  duration_ms: z.number().nullable(),
});
const Entry = z.object({
  kind: z.string(),
  step: z.number(),
  text: z.string(),
  call: Call.optional(),
  end: Receipt.omit({ result: true, output: true }).optional(),
});
const Line = z.object({ type: z.string(), payload: z.unknown() });

test("--output json prints one object for every ending, wrong arguments included", async () => {
  await using machine = await Machine.playing({ "do it": [says("done")] });
  const refused: [string[], RegExp, Record<string, string>?][] = [
    [["spawn", "do it", "--output", "json", "--agnet", "x"], /unknown flag --agnet/],
    [["spawn", "do it", "--output=json", "--max-steps", "0"], /--max-steps/],
    [["spawn", "--output", "json", "do", "it"], /quotes/],
    [["spawn", "--output", "json"], /INTENT is missing/],
    [["spawn", "do it", "--output", "json", "--agent", "unknown-agent"], /unknown-agent/],
    [["spawn", "do it", "--output", "json", "--stdin", "--no-stdin"], /exclude each other/],
    [["resume", "--output", "json"], /There is no run/],
    [["resume", "zz", "--output", "json"], /UUID/],
    [["resume", "01975a2e", "--output", "json", "--forc"], /--fork/],
  ];
  for (const [args, why] of refused) {
    const { code, stdout, stderr } = await machine.run(args);
    expect([args, code]).toEqual([args, 64]);
    const receipt = Receipt.parse(JSON.parse(stdout));
    expect(receipt).toMatchObject({ exit_code: 64, exit_reason: "usage", pid: 0, uuid: "" });
    expect(receipt.error?.message).toMatch(why);
    expect(stderr).toMatch(why);
  }
  const events = await machine.run(["spawn", "do it", "--output", "jsonl", "--agnet", "x"]);
  expect(JSON.parse(events.stdout)).toMatchObject({ type: "error", payload: { code: "INVALID" } });
  expect((await machine.run(["spawn", "do it", "--agnet", "x"])).stdout).toBe("");
  const unreachable = await machine.run(["spawn", "do it", "--output", "json"], {
    env: {
      RNIX_PROVIDER: undefined,
      OPENAI_BASE_URL: undefined,
      OPENAI_API_KEY: undefined,
      ANTHROPIC_API_KEY: undefined,
      GEMINI_API_KEY: undefined,
    },
  });
  expect([unreachable.code, receiptOf(unreachable).exit_code]).toEqual([69, 69]);
});

test("tool events of jsonl and of the log are structured, live and from the record", async () => {
  await using machine = new Machine();
  machine.write("a.txt", "contents\n");
  const script = [
    calls(["Read", { path: "a.txt" }], ["Read", { path: "not-there.txt" }], ["Nonsense", { x: 1 }]),
    says("done"),
  ];
  await machine.play({ "do it": script });
  const { stdout } = await machine.run(["spawn", "do it", "--output", "jsonl"]);
  const lines = stdout
    .trim()
    .split("\n")
    .map((line) => Line.parse(JSON.parse(line)));
  expect(lines.filter(({ type }) => type === "complete" || type === "error")).toHaveLength(1);
  const live = lines.flatMap(({ type, payload }) => (type === "log_entry" ? [Entry.parse(payload)] : []));
  const { uuid } = Receipt.extend({ event: z.literal("complete") }).parse(lines.at(-1)?.payload);
  const logged = await machine.run(["log", uuid, "--json"]);
  const recorded = logged.stdout
    .trim()
    .split("\n")
    .map((line) => Entry.parse(JSON.parse(line)));
  for (const entries of [live, recorded]) {
    const made = entries.flatMap(({ kind, call }) => (call ? [{ kind, ...call }] : []));
    const [first, done, missing] = [
      made.find(({ kind }) => kind === "tool"),
      made.find(({ kind, state }) => kind === "result" && state === "done"),
      made.find(({ kind, input }) => kind === "result" && input.path === "not-there.txt"),
    ];
    expect(first).toMatchObject({
      name: "Read",
      path: "/dev/fs",
      input: { path: "a.txt" },
      duration_ms: null,
    });
    expect(done).toMatchObject({
      id: first?.id,
      name: "Read",
      error: null,
      result: expect.stringContaining("contents"),
    });
    expect(done?.duration_ms).toBeGreaterThanOrEqual(0);
    expect(missing).toMatchObject({ state: "failed", result: null, error_code: "NOT_FOUND" });
    expect(made.find(({ name, kind }) => name === "Nonsense" && kind === "result")).toMatchObject({
      path: null,
    });
  }
  expect(recorded.at(-1)).toMatchObject({
    kind: "end",
    end: { uuid, exit_code: 0, exit_reason: "completed" },
  });
});

test("the log ends with how the run ended and why: an answer, checks, a budget, a suspension", async () => {
  await using machine = await Machine.playing({
    finish: [says("done")],
    "go on": [says("unused")],
    hang: [bash("sleep 60")],
  });
  const done = await verdict(machine, ["finish", "--check", "true"]);
  expect((await machine.run(["log", done.receipt.uuid])).stdout).toMatch(
    /check true: passed\nok completed, 1 step/,
  );

  const failed = await verdict(machine, [
    "finish",
    "--check",
    "echo broken; exit 3",
    "--check-attempts",
    "1",
  ]);
  const why = (await machine.run(["log", failed.receipt.uuid])).stdout;
  expect(why).toMatch(/check echo broken; exit 3: failed \(exit 3\)\n {4}broken\n/);
  expect(why).toMatch(/check_failed \(exit 1\): The agent finished, but the check/);

  const spent = await verdict(machine, ["go on", "--budget", "100"]);
  expect(spent.receipt).toMatchObject({ exit_code: 2, exit_reason: "budget_exceeded" });
  const { uuid } = spent.receipt;
  expect((await machine.run(["log", uuid])).stdout).toMatch(
    /budget_exceeded \(exit 2\): The token budget .* of 100 tokens are used/,
  );
  const trace = (await machine.run(["strace", uuid, "--json"])).stdout.trim().split("\n");
  expect(JSON.parse(trace.at(-1) ?? "")).toMatchObject({
    syscall: "Exit",
    args: { action: "budget_exceeded", code: 2 },
    error: spent.receipt.error?.message,
  });
  expect((await machine.run(["strace", uuid])).stdout).toContain("budget_exceeded");

  const hanging = machine.start(["spawn", "hang", "--output", "json"]);
  await machine.until(["ps"], /hang/);
  const following = machine.start(["log", "-f", "4"]);
  await following.stdout.has(/sleep 60/);
  await machine.ok(["suspend", "4"]);
  const suspended = receiptOf(await hanging.done);
  expect((await following.done).stdout).toContain(`to resume it: rnix resume ${suspended.uuid}`);
});
