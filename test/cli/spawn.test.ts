import { describe, expect, test } from "bun:test";
import { runCommandLine } from "../../src/cli/cli.ts";
import { SyscallError } from "../../src/plugin/index.ts";
import type { StreamEvent } from "../../src/protocol/methods.ts";
import type { Method } from "../../src/server/methods/method-table.ts";
import { until } from "../support/until.ts";
import {
  bash,
  complete,
  delta,
  entry,
  FakeIo,
  type FakeOptions,
  REF,
  receipt,
  SPAWNED,
  step,
} from "./support.ts";

const RUN: StreamEvent[] = [SPAWNED, step(1), delta(1, "I will look."), complete()];

async function spawn(
  args: string[],
  o: FakeOptions = {},
): Promise<{ code: number; out: string; err: string; io: FakeIo }> {
  const io = new FakeIo({ answers: { spawn: REF }, events: RUN, ...o });
  const code = await runCommandLine(["spawn", ...args], io);
  return { code, out: io.stdout.text, err: io.stderr.text, io };
}

describe("the request", () => {
  test("sends every flag under its protocol name", async () => {
    const { io } = await spawn(
      [
        "do it",
        ..."--agent coder --provider p --model m --max-steps 5 --budget unlimited --max-cost 1.50 --timeout 1h30m".split(
          " ",
        ),
        ..."--allow Read --allow Bash(git*) --deny Write --deny WebFetch --sandbox off --trust".split(" "),
        ..."--check a --check b --system-prompt be-brief --cwd .. --no-input --no-daemon".split(" "),
        ..."--env A=1 --env B=x=y".split(" "),
      ],
      { env: { HOME: "/h", A: "0" } },
    );
    const [request] = io.payloads("spawn");
    expect(request).toEqual({
      intent: "do it",
      agent: "coder",
      provider: "p",
      model: "m",
      max_steps: 5,
      context_budget: "unlimited",
      max_cost: 1.5,
      timeout_ms: 5_400_000,
      allow: ["Read", "Bash(git*)"],
      deny: ["Write", "WebFetch"],
      sandbox: "off",
      trust: true,
      check: ["a", "b"],
      system_prompt: "be-brief",
      cwd: new URL("..", import.meta.url).pathname.replace(/\/$/, ""),
      env: { HOME: "/h", A: "1", B: "x=y" },
      env_given: ["A", "B"],
    });
    expect(io.sessions).toEqual([{ inside: true }]);
    expect(io.openSessions).toBe(0);
  });

  test("sends only the given options", async () => {
    const { io } = await spawn(["do it"]);
    expect(JSON.parse(JSON.stringify(io.payloads("spawn")[0]))).toEqual({
      intent: "do it",
      cwd: import.meta.dir,
      env: {},
      env_given: [],
    });
  });

  test("a file after @ is the system prompt, and --add is absolute", async () => {
    const { io } = await spawn(["x", "--system-prompt", "@support.ts", "--add", "support.ts"]);
    const [request] = io.payloads("spawn");
    expect(request?.system_prompt).toBe(await Bun.file(`${import.meta.dir}/support.ts`).text());
    expect(request?.add).toEqual([`${import.meta.dir}/support.ts`]);
  });

  test("an intent that begins with a dash comes after --", async () => {
    expect((await spawn(["--", "-x"])).io.payloads("spawn")[0]?.intent).toBe("-x");
    expect((await spawn(["-x"])).code).toBe(64);
  });

  test.each([
    ["--max-steps", "0"],
    ["--max-steps", "1.5"],
    ["--max-steps", "ten"],
    ["--budget", "0"],
    ["--budget", "-5"],
    ["--timeout", "0"],
    ["--timeout", "600"],
    ["--timeout", "10"],
    ["--timeout", "0s"],
    ["--sandbox", "maybe"],
    ["--output", "xml"],
    ["--env", "A"],
    ["--env", "=x"],
    ["--env", "1A=x"],
    ["--cwd", "not-there"],
    ["--cwd", "support.ts"],
    ["--add", "not-there"],
    ["--system-prompt", "@not-there"],
    ["--effort", "hihg"],
    ["--output-schema", "not-there"],
    ["--output-schema", "support.ts"],
  ])("%s %s is refused with 64 before anything is started", async (flag, value) => {
    const { code, err, out, io } = await spawn(["x", `${flag}=${value}`]);
    expect(code).toBe(64);
    expect(err).toStartWith(`rnix spawn: ${flag}`);
    expect(out).toBe("");
    expect(io.sessions).toEqual([]);
  });

  test("--detach and --no-daemon exclude each other", async () => {
    expect((await spawn(["x", "--detach", "--no-daemon"])).code).toBe(64);
  });

  test("is interactive only at a terminal, and never in CI or with --no-input", async () => {
    const stdin = { kind: "tty" as const, read: async () => null };
    const attended = async (args: string[], env = {}) =>
      (await spawn(["x", ...args], { stdin, stderrTTY: true, env })).io.payloads("spawn")[0]?.attended;
    expect(await attended([])).toBe(true);
    expect(await attended(["--no-input"])).toBeUndefined();
    expect(await attended([], { CI: "true" })).toBeUndefined();
    expect((await spawn(["x"])).io.payloads("spawn")[0]?.attended).toBeUndefined();
  });
});

describe("--output", () => {
  test("text prints only the answer on stdout, and the chosen provider on stderr", async () => {
    const { code, out, err } = await spawn(["do it"]);
    expect(code).toBe(0);
    expect(out).toBe("The answer.\n");
    expect(err).toContain("provider openai (OPENAI_API_KEY), model m");
    expect(err).toContain("completed");
  });

  test("text with -q prints only the answer", async () => {
    expect(await spawn(["do it", "-q"])).toMatchObject({ code: 0, out: "The answer.\n", err: "" });
  });

  test("json prints only the receipt", async () => {
    const { out } = await spawn(["do it", "--output", "json"]);
    expect(out.endsWith("}\n")).toBe(true);
    expect(JSON.parse(out)).toEqual(receipt());
  });

  test("jsonl prints the events, the last and only one of its kind is complete", async () => {
    const { out } = await spawn(["do it", "--output", "jsonl"]);
    const lines = out
      .trimEnd()
      .split("\n")
      .map((line): StreamEvent => JSON.parse(line));
    expect(lines).toEqual(RUN);
  });

  test.each([
    [0, "completed"],
    [1, "check_failed"],
    [2, "budget_exceeded"],
    [75, "suspended"],
    [130, "interrupted"],
    [137, "killed"],
    [143, "terminated"],
  ])("the exit code %i is the run's, in every output format", async (exit_code, exit_reason) => {
    const events = [SPAWNED, complete({ exit_code, exit_reason, result: null })];
    for (const output of ["text", "json", "jsonl"]) {
      const { code, out } = await spawn(["x", "--output", output], { events });
      expect(code).toBe(exit_code);
      if (output === "json") expect(JSON.parse(out).exit_code).toBe(exit_code);
    }
  });

  test("a failed run prints the reason, its checks and that the text is not an answer", async () => {
    const { out, err } = await spawn(["x"], {
      events: [
        SPAWNED,
        complete({
          exit_code: 1,
          exit_reason: "check_failed",
          partial: true,
          checks: [{ command: "npm test", exit_code: 1, output: "1 failed" }],
          error: { code: "INVALID", message: "a check failed" },
        }),
      ],
    });
    expect(out).toBe("The answer.\n");
    expect(err).toContain("check npm test: failed (exit 1)\n    1 failed");
    expect(err).toContain("check_failed (exit 1): a check failed (the text above is not a finished answer)");
  });

  test("a suspended run prints how to resume it", async () => {
    const { err } = await spawn(["x"], { events: [complete({ exit_code: 75, exit_reason: "suspended" })] });
    expect(err).toContain(`rnix resume ${REF.uuid}`);
  });

  test("--detach prints the PID and the UUID and returns", async () => {
    expect(await spawn(["x", "--detach"])).toMatchObject({ code: 0, out: `7 ${REF.uuid}\n` });
    const { out, io } = await spawn(["x", "--detach", "--output", "json"]);
    expect(JSON.parse(out)).toEqual(REF);
    expect(io.payloads("spawn")[0]?.detach).toBe(true);
  });

  const refusals: [string, number, string][] = [
    ["INVALID", 64, "usage"],
    ["NOT_FOUND", 64, "usage"],
    ["UNAVAILABLE", 69, "unavailable"],
    ["DRIVER", 1, "failed"],
  ];
  test.each(refusals)("%s before the run exists ends with %i", async (code, exit, reason) => {
    const error = new SyscallError(code as "INVALID", "no such agent");
    const text = await spawn(["x"], { answers: { spawn: error } });
    expect(text).toMatchObject({ code: exit, out: "" });
    expect(text.err).toContain("rnix spawn: no such agent");
    const json = await spawn(["x", "--output", "json"], { answers: { spawn: error } });
    expect(JSON.parse(json.out)).toMatchObject({
      pid: 0,
      exit_code: exit,
      exit_reason: reason,
      error: { code, message: "no such agent" },
    });
    const jsonl = await spawn(["x", "--output", "jsonl"], { answers: { spawn: error } });
    expect(
      jsonl.out
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line)),
    ).toEqual([{ type: "error", payload: { event: "error", error_message: "no such agent", code } }]);
    expect(json.code).toBe(exit);
    expect(jsonl.io.openSessions).toBe(0);
  });

  test("an error event is printed once", async () => {
    const event: StreamEvent = {
      type: "error",
      payload: { event: "error", error_message: "no provider", code: "UNAVAILABLE" },
    };
    const { code, out } = await spawn(["x", "--output", "jsonl"], { events: [event] });
    expect(code).toBe(69);
    expect(JSON.parse(out)).toEqual(event);
  });

  test("a stream without an end is an error with the run's PID, not a success", async () => {
    const { code, out, err } = await spawn(["x", "--output", "json"], { events: [SPAWNED], down: true });
    expect(code).toBe(69);
    expect(JSON.parse(out)).toMatchObject({ ...REF, exit_code: 69 });
    expect(err).toContain("rnix attach 7");
  });
});

describe("what a user sees", () => {
  const streamed = [
    SPAWNED,
    step(1),
    delta(1, "Looking"),
    delta(1, " around."),
    entry(1, "text", "Looking around."),
    ...bash(1, "ls -l", "a\nb"),
    step(2),
    delta(2, "The answer."),
    entry(2, "text", "The answer."),
    complete(),
  ];

  test("at a terminal the text is streamed and the answer printed once", async () => {
    const { out, err } = await spawn(["x"], {
      events: streamed,
      stdoutTTY: true,
      stderrTTY: true,
      env: { NO_COLOR: "1" },
    });
    expect(out).toBe("Looking around.\nThe answer.\n");
    expect(err).toMatchSnapshot();
  });

  test.each([
    ["at a terminal", { stdoutTTY: true, stderrTTY: true }],
    ["with stdout in a file", { stderrTTY: true }],
    ["without a terminal", {}],
  ])("%s the reasoning is shown before the answer it leads to, and once", async (_, terminals) => {
    const thought = (text: string): StreamEvent => ({
      type: "reasoning_delta",
      payload: { ...REF, step: 1, text },
    });
    const events = [
      SPAWNED,
      step(1),
      thought("First I"),
      thought(" think.\nThen I"),
      thought(" answer."),
      delta(1, "The "),
      delta(1, "answer."),
      entry(1, "thought", "First I think.\nThen I answer."),
      entry(1, "text", "The answer."),
      complete(),
    ];
    const { io, out, err } = await spawn(["x"], { events, env: { NO_COLOR: "1" }, ...terminals });
    expect(err.match(/ {2}First I think\.\n {2}Then I answer\.\n/g)).toHaveLength(1);
    expect(err.indexOf("The answer.")).toSatisfy((at) => at < 0 || at > err.indexOf("Then I"));
    expect(out).toBe("The answer.\n");
    expect(io.stdout.text + io.stderr.text).toContain("completed");
  });

  test("with stdout in a file the text is streamed on stderr and the file has only the answer", async () => {
    const { out, err } = await spawn(["x"], { events: streamed, stderrTTY: true, env: { NO_COLOR: "1" } });
    expect(out).toBe("The answer.\n");
    expect(err).toMatchSnapshot();
  });

  test("without a terminal each step is a line, and the answer is only on stdout", async () => {
    const { out, err } = await spawn(["x"], { events: streamed });
    expect(out).toBe("The answer.\n");
    expect(err).toMatchSnapshot();
    expect(err).not.toContain("The answer.");
  });

  test("an answer with dropped deltas is printed whole", async () => {
    const events = [step(1), delta(1, "The ans"), complete()];
    expect((await spawn(["x"], { events, stdoutTTY: true })).out).toBe("The ans\nThe answer.\n");
  });

  test("control characters of a model do not reach the terminal, a file gets them unchanged", async () => {
    const result = "\x1b[2Jred\x1b]0;title\x07";
    const events = [complete({ result })];
    expect((await spawn(["x"], { events, stdoutTTY: true })).out).toBe("red\n");
    expect((await spawn(["x"], { events })).out).toBe(`${result}\n`);
  });
});

describe("Ctrl-C", () => {
  /** A run that continues until it is ended. */
  function running(answers: Record<string, unknown> = {}) {
    const { promise: end, resolve } = Promise.withResolvers<StreamEvent>();
    const io = new FakeIo({
      answers: {
        spawn: REF,
        suspend: { ...REF, state: "running", step: 1 },
        signal_tree: { ...REF, affected: 1 },
        ...answers,
      },
      events: [SPAWNED, end],
    });
    return { io, end: resolve, code: runCommandLine(["spawn", "x"], io) };
  }

  /** What the command asks its run for when it gets this signal. */
  async function asks(io: FakeIo, signal: "SIGINT" | "SIGTERM", method: Method): Promise<void> {
    const asked = io.whenAsked(method);
    io.signal(signal);
    await asked;
  }

  test.each(["SIGINT", "SIGTERM"] as const)("%s once suspends the run: 75", async (name) => {
    const { io, end, code } = running();
    await io.whenAsked("spawn");
    await asks(io, name, "suspend");
    end(complete({ exit_code: 75, exit_reason: "suspended" }));
    expect(await code).toBe(75);
    expect(io.payloads("suspend")).toEqual([REF]);
    expect(io.stderr.text).toContain("interrupt again to kill it");
    expect(io.listening).toBe(0);
    expect(io.timers).toEqual([]);
  });

  test("twice kills the tree: 130", async () => {
    const { io, end, code } = running();
    await io.whenAsked("spawn");
    await asks(io, "SIGINT", "suspend");
    await asks(io, "SIGINT", "signal_tree");
    end(complete({ exit_code: 130, exit_reason: "interrupted" }));
    expect(await code).toBe(130);
    expect(io.payloads("signal_tree")).toEqual([{ ...REF, signal: 3 }]);
    expect(io.timers).toEqual([]);
  });

  test("a run that ended before it was killed still reports its verdict", async () => {
    const cause = { code: "NOT_FOUND", message: "there is no such process" };
    const gone = new SyscallError("NOT_FOUND", cause.message, { cause });
    const { io, end, code } = running({ signal_tree: gone });
    await io.whenAsked("spawn");
    await asks(io, "SIGTERM", "suspend");
    await asks(io, "SIGTERM", "signal_tree");
    await until(() => io.stderr.text.includes(cause.message));
    end(complete({ exit_code: 75, exit_reason: "suspended" }));
    expect(await code).toBe(75);
  });

  test("three times stops waiting: 130, and prints how to look at the run", async () => {
    const { io, code } = running();
    await io.whenAsked("spawn");
    await asks(io, "SIGINT", "suspend");
    await asks(io, "SIGINT", "signal_tree");
    io.signal("SIGINT");
    expect(await code).toBe(130);
    expect(io.stderr.text).toContain(`rnix show ${REF.uuid}`);
    expect(io.openSessions).toBe(0);
  });

  test("a kill without an answer ends at its deadline", async () => {
    const { io, code } = running();
    await io.whenAsked("spawn");
    await asks(io, "SIGINT", "suspend");
    await asks(io, "SIGINT", "signal_tree");
    for (const { fire } of [...io.timers]) fire();
    expect(await code).toBe(130);
  });
});
