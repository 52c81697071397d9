import { describe, expect, test } from "bun:test";
import { runCommandLine } from "../../src/cli/cli.ts";
import type { Input } from "../../src/cli/io.ts";
import { complete, FakeIo, type FakeOptions, REF, SPAWNED, step } from "./support.ts";

function piped(text: string): Input {
  const chunks = [new TextEncoder().encode(text)];
  return { kind: "pipe", read: async () => chunks.shift() ?? null };
}

async function resume(args: string[], o: FakeOptions = {}) {
  const answers = { resume: { ...REF, resumed_from_step: 1 } };
  const io = new FakeIo({ answers, events: [SPAWNED, step(2), complete()], cwd: "/project", ...o });
  const code = await runCommandLine(["resume", ...args], io);
  return { code, out: io.stdout.text, err: io.stderr.text, io };
}

describe("rnix resume", () => {
  test("sends its flags under their protocol names, and follows the run to its end", async () => {
    const { code, out, io } = await resume(
      [
        REF.uuid,
        "go on",
        ..."--max-steps 9 --budget 1000 --max-cost 2 --timeout unlimited --model m --provider p --trust --no-daemon".split(
          " ",
        ),
      ],
      { env: { KEY: "k" } },
    );
    expect(code).toBe(0);
    expect(out).toBe("The answer.\n");
    expect(JSON.parse(JSON.stringify(io.payloads("resume")))).toEqual([
      {
        uuid: REF.uuid,
        cwd: "/project",
        input: "go on",
        provider: "p",
        model: "m",
        max_steps: 9,
        context_budget: 1000,
        max_cost: 2,
        timeout_ms: "unlimited",
        trust: true,
        stream: true,
        until_answer: true,
        env: { KEY: "k" },
      },
    ]);
    expect(io.sessions).toEqual([{ inside: true }]);
    expect(io.openSessions).toBe(0);
  });

  test("forks a run from one of its steps", async () => {
    const { io } = await resume(["7", "--fork", "--from-step", "2", "another way"]);
    expect(JSON.parse(JSON.stringify(io.payloads("resume")))).toEqual([
      {
        pid: 7,
        cwd: "/project",
        env: {},
        input: "another way",
        fork: true,
        from_step: 2,
        stream: true,
        until_answer: true,
      },
    ]);
  });

  test("sends only the given options, and reads no stdin with --no-stdin", async () => {
    const { io } = await resume(["7", "--no-stdin"], { stdin: piped("unread") });
    expect(JSON.parse(JSON.stringify(io.payloads("resume")))).toEqual([
      { pid: 7, cwd: "/project", env: {}, stream: true, until_answer: true },
    ]);
  });

  test.each([[["-"]], [[]]])("with %p the text of a pipe is the message", async (args) => {
    const { io } = await resume(["7", ...args], { stdin: piped("from a pipe\n") });
    expect(io.payloads("resume")[0]).toMatchObject({ input: "from a pipe" });
    expect(io.payloads("resume")[0]?.attached).toBeUndefined();
  });

  test("with a message the text of a pipe is attached to it; an empty pipe attaches nothing", async () => {
    const { io } = await resume(["7", "why?"], { stdin: piped("from a pipe\n") });
    expect(io.payloads("resume")[0]).toMatchObject({ input: "why?", attached: "from a pipe\n" });
    const empty = await resume(["7"], { stdin: piped("  \n") });
    expect(empty.io.payloads("resume")[0]?.input).toBeUndefined();
  });

  test("--detach prints the PID and the UUID, and --output json the receipt", async () => {
    const answers = { resume: { ...REF, resumed_from_step: 1, notices: ["it has changed"] } };
    const detached = await resume(["7", "--detach"], { answers });
    expect(detached).toMatchObject({ code: 0, out: `7 ${REF.uuid}\n`, err: "note: it has changed\n" });
    expect(detached.io.payloads("resume")[0]?.stream).toBeUndefined();
    const { out } = await resume(["7", "--output", "json"]);
    expect(JSON.parse(out)).toMatchObject({ ...REF, exit_code: 0 });
  });

  test("exits with the run's exit code", async () => {
    const events = [complete({ exit_code: 75, exit_reason: "suspended" })];
    const { code, err } = await resume(["7"], { events });
    expect(code).toBe(75);
    expect(err).toContain(`to resume it: rnix resume ${REF.uuid}`);
  });

  test.each([
    [["--adopt", "--yes"], "--adopt needs the UUID"],
    [["nonsense"], "expected a PID, a UUID"],
    [["7", ""], "INPUT is empty"],
    [["7", "--from-step", "2"], "--from-step needs --fork"],
    [["7", "--fork", "--from-step", "0"], "--from-step"],
    [["7", "--fork", "--from-step", "last"], "--from-step"],
    [["7", "--max-steps", "0"], "--max-steps"],
    [["7", "--detach", "--no-daemon"], "exclude each other"],
  ])("%j is refused", async (args, hint) => {
    const { code, err, io } = await resume(args);
    expect(code).toBe(64);
    expect(err).toContain(hint);
    expect(io.asked).toEqual([]);
  });

  test.each([
    [[], undefined],
    [["now the tests too"], "now the tests too"],
  ])("%j resumes the project's last run and names it on stderr", async (args, input) => {
    const answers = {
      resume: { ...REF, resumed_from_step: 1 },
      last_run: { ...REF, intent: "build it" },
    };
    const { code, err, io } = await resume(args, { answers });
    expect(code).toBe(0);
    expect(io.payloads("resume")).toMatchObject([{ uuid: REF.uuid, input }]);
    expect(err).toContain(`process ${REF.pid}  ${REF.uuid}  build it`);
  });

  test("is refused inside a run", async () => {
    const { code, err, io } = await resume(["7"], { env: { RNIX_UNIT: "u1" } });
    expect(code).toBe(1);
    expect(err).toContain("refused inside a run");
    expect(io.asked).toEqual([]);
  });
});
