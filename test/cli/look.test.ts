import { describe, expect, test } from "bun:test";
import { runCommandLine } from "../../src/cli/cli.ts";
import type { Wake } from "../../src/kernel/types.ts";
import { SyscallError } from "../../src/plugin/index.ts";
import type {
  Activity,
  ListedProc,
  ProcDetail,
  QueueWire,
  StepDetail,
  StreamEvent,
} from "../../src/protocol/methods.ts";
import { listedProc as procInfo } from "../support/samples.ts";
import { bash, complete, entry, FakeIo, type FakeOptions, REF, receipt, SPAWNED, step } from "./support.ts";

async function run(argv: string[], o: FakeOptions = {}) {
  const io = new FakeIo({ cwd: "/project", ...o });
  const code = await runCommandLine(argv, io);
  expect(io.openSessions).toBe(0);
  return { code, out: io.stdout.text, err: io.stderr.text, io };
}

const PARENT = procInfo({
  pid: 7,
  uuid: "u7",
  intent: "fix the\ntest",
  steps: 3,
  tokens_used: 12_345,
  elapsed_ms: 65_000,
});
const CHILD = procInfo({ pid: 8, ppid: 7, uuid: "u8", parent_uuid: "u7", agent: "coder", is_paused: true });
const GRANDCHILD = procInfo({ pid: 9, ppid: 8, uuid: "u9", parent_uuid: "u8", cost_usd: 0.004 });
const SECOND = procInfo({ pid: 10, ppid: 7, uuid: "u10", parent_uuid: "u7" });
const ENDED = procInfo({ pid: 3, uuid: "u3", state: "dead", exit_code: 1, exit_reason: "check_failed" });

describe("rnix ps", () => {
  const live = { answers: { list_procs: { processes: [PARENT, CHILD, GRANDCHILD, SECOND] } } };

  test("lists the live runs of this project", async () => {
    const { code, out, io } = await run(["ps"], live);
    expect(code).toBe(0);
    expect(out).toMatchSnapshot();
    expect(io.payloads("list_procs")).toMatchObject([{ cwd: "/project", waiting: true }]);
  });

  test("shows what suspended runs wait for, a listed child by its PID", async () => {
    const [one, other] = [procInfo({ pid: 3 }), procInfo({ pid: 4, uuid: REF.uuid, suspended: null })];
    const waits = (wake: Wake): ListedProc => ({
      ...one,
      state: "suspended",
      status: "suspended",
      suspended: { reason: "", cause: "asked", wake },
    });
    const processes = [
      waits({ on: "child", uuid: other.uuid }),
      waits({ on: "child", uuid: "0199aaaa" }),
      waits({ on: "message" }),
      waits({ on: "never" }),
      other,
    ];
    const { out } = await run(["ps"], { answers: { list_procs: { processes } } });
    const column = out.split("\n").map((line) => /waits (.*?) {2}/.exec(line)?.[1]);
    expect(column.slice(1, 5)).toEqual([
      "for child 4",
      "for child 0199aaaa",
      "for a message",
      "for rnix resume",
    ]);
  });

  test("says what each run does, and for how long or until when", async () => {
    const doing = (kind: Activity["kind"], text: string, more: Partial<Activity> = {}): Activity => ({
      kind,
      text,
      since_ms: Date.now() - 12_300,
      until_ms: null,
      ...more,
    });
    const processes = [
      { ...PARENT, doing: doing("tool", "Bash npm test") },
      {
        ...SECOND,
        doing: doing("slot", "waiting for the rate limit of x", { until_ms: Date.now() + 90_900 }),
      },
      procInfo({ pid: 11, uuid: "u11", state: "dead", exit_code: 0, exit_reason: "completed" }),
      ENDED,
    ];
    const { out } = await run(["ps"], { answers: { list_procs: { processes } } });
    expect(out).toMatch(/\n7 +running .* Bash npm test, 12s +fix the test\n/);
    expect(out).toMatch(/\n10 +running .* waiting for the rate limit of x, 1m30s left +do it\n/);
    expect(out).toMatch(/\n11 +done .* completed +do it\n/);
    expect(out).toMatch(/\n3 +failed .* check_failed \(exit 1\) +do it\n/);
  });

  test.each([
    [120, ["PID", "STATE", "AGENT", "MODEL", "STEPS", "TOKENS", "COST", "ELAPSED", "DOING", "INTENT"]],
    [80, ["PID", "STATE", "AGENT", "STEPS", "COST", "ELAPSED", "DOING", "INTENT"]],
    [60, ["PID", "STATE", "ELAPSED", "DOING", "INTENT"]],
    [30, ["PID", "STATE", "DOING"]],
  ])("fits a terminal of %i columns", async (columns, titles) => {
    const text = "Bash npm test -- --coverage --reporter=dots";
    const doing = { kind: "tool", text, since_ms: Date.now(), until_ms: null } as const;
    const long = { intent: "fix the test that fails since yesterday, and say why it failed", doing };
    const processes = [
      { ...PARENT, ...long, elapsed_ms: 3_725_000, cost_usd: 12.5, model: "claude-sonnet-4-5" },
      { ...CHILD, ...long, agent: "code-analyst" },
      procInfo({ pid: 12_345, uuid: "u", state: "suspended", exit_code: 75, intent: long.intent }),
    ];
    const answers = { list_procs: { processes } };
    const { out } = await run(["ps"], { answers, stdoutTTY: true, columns, env: { NO_COLOR: "1" } });
    const [title = "", ...rows] = out.trimEnd().split("\n");
    expect(title.split(/ +/)).toEqual(titles);
    for (const row of rows) expect(Bun.stringWidth(row)).toBeLessThanOrEqual(columns);
    expect(rows[0]).toContain("Bash npm");
  });

  test("--tree shows children below their parents", async () => {
    expect((await run(["ps", "--tree"], live)).out).toMatchSnapshot();
    expect((await run(["ps", "--tree"], { ...live, stdoutTTY: true, env: { NO_COLOR: "1" } })).out).toContain(
      "│  └─ 9",
    );
  });

  test("--tree lists also the runs whose damaged records make them their own ancestors", async () => {
    const processes = [
      { ...PARENT, parent_uuid: CHILD.uuid },
      { ...CHILD, parent_uuid: PARENT.uuid },
      { ...SECOND, parent_uuid: SECOND.uuid },
      GRANDCHILD,
    ];
    const { out } = await run(["ps", "--tree"], { answers: { list_procs: { processes } } });
    expect(out.trimEnd().split("\n")).toHaveLength(1 + processes.length);
  });

  test("--tree shows the origin of a fork by its PID, or by its UUID when it is not listed", async () => {
    const processes = [
      PARENT,
      { ...SECOND, origin_uuid: PARENT.uuid },
      { ...CHILD, origin_uuid: "019a-gone" },
    ];
    const { out } = await run(["ps", "--tree"], { answers: { list_procs: { processes } } });
    const [title, ...rows] = out.split("\n");
    const at = title?.indexOf("FORK OF") ?? -1;
    const origins = rows.filter((row) => row !== "").map((row) => row.slice(at).split(" ")[0]);
    expect(origins.sort()).toEqual(["-", "019a-gone", String(PARENT.pid)]);
    expect((await run(["ps"], { answers: { list_procs: { processes } } })).out).not.toContain("FORK OF");
  });

  test("an intent of a megabyte is truncated, also in a pipe", async () => {
    const processes = [{ ...PARENT, intent: "x".repeat(1_000_000) }];
    const { out } = await run(["ps"], { answers: { list_procs: { processes } } });
    expect(out.length).toBeLessThan(5_000);
    expect(out).toContain("xxx…");
  });

  test("--json prints an array of the unchanged records", async () => {
    expect(JSON.parse((await run(["ps", "--json"], live)).out)).toEqual([PARENT, CHILD, GRANDCHILD, SECOND]);
  });

  test("-a lists ended runs with their verdict, and names unreadable ones", async () => {
    const answers = {
      list_all_procs: {
        processes: [ENDED, PARENT],
        total: 2,
        unreadable: [{ path: "/data/x", message: "torn" }],
      },
    };
    const { out, err } = await run(["ps", "-a"], { answers });
    expect(out).toMatchSnapshot();
    expect(err).toContain("/data/x: torn");
  });

  test("--all-projects adds a column with the project", async () => {
    const { out, io } = await run(["ps", "--all-projects"], live);
    expect(out).toContain("PROJECT");
    expect(io.payloads("list_procs")[0]?.all_projects).toBe(true);
  });
});

describe("which process", () => {
  test.each([
    ["7", { pid: 7 }],
    ["123456", { pid: 123_456 }],
    ["0199", { uuid: "0199" }],
    ["019A-b", { uuid: "019a-b" }],
    [REF.uuid, { uuid: REF.uuid }],
  ])("%s is %j", async (text, target) => {
    const { io } = await run(["show", text], { answers: { show: DETAIL } });
    expect(io.payloads("show")).toEqual([{ ...target, cwd: "/project" }]);
  });

  test.each(["0", "x", "-1", "1.5", "all", "7;8", ""])("%j is not a process", async (text) => {
    const { code, err, io } = await run(["show", "--", text]);
    expect(code).toBe(64);
    expect(err).toContain("expected a PID, a UUID");
    expect(io.sessions).toEqual([]);
  });

  test("an unknown process is exit 64 with the server's message", async () => {
    const answers = { show: new SyscallError("NOT_FOUND", "No process with PID 7.") };
    expect(await run(["show", "7"], { answers })).toMatchObject({
      code: 64,
      out: "",
      err: "rnix show: No process with PID 7.\nsee rnix show --help\n",
    });
  });
});

const DETAIL: ProcDetail = {
  ...PARENT,
  live: true,
  fds: [{ fd: 3, path: "/dev/llm/openai" }],
  mounts: [
    { path: "/mnt/mcp/3-github", type: "mcp", down: null },
    { path: "/mnt/mcp/3-db", type: "mcp", down: "mcp db is down: it ended." },
  ],
  all_units: [],
  connections: [],
  context: { messages: 5 },
  receipt: null,
};

describe("rnix show", () => {
  test("prints the known fields only", async () => {
    expect((await run(["show", "7"], { answers: { show: DETAIL } })).out).toMatchSnapshot();
    const ended = { ...DETAIL, ...ENDED, live: false, fds: [], context: null };
    expect((await run(["show", "3"], { answers: { show: ended } })).out).toMatchSnapshot();
  });

  test.each([
    ["supervisor", ["kind", "tokens", "cost", "time"]],
    ["command", ["kind", "time"]],
  ] as const)("of a %s says nothing that only an agent has", async (kind, fieldNames) => {
    const show = { ...DETAIL, kind, agent: kind, provider: "", model: "", mounts: [], fds: [] };
    const { out } = await run(["show", "7"], { answers: { show } });
    const names = out.split("\n").flatMap((line) => /^ {2}(\w+)/.exec(line)?.[1] ?? []);
    const agents = [
      "agent",
      "model",
      "steps",
      "usage",
      "context",
      "tool",
      "tools",
      "devices",
      "allow",
      "sandbox",
    ];
    expect(names).toEqual(expect.arrayContaining([...fieldNames]));
    expect(names.filter((name) => agents.includes(name))).toEqual([]);
  });

  test("--json is the record", async () => {
    expect(JSON.parse((await run(["show", "7", "--json"], { answers: { show: DETAIL } })).out)).toEqual(
      DETAIL,
    );
  });
});

describe("rnix steps", () => {
  const summary = {
    step: 1,
    ts: "2026-01-01T00:00:00Z",
    action: "tool_call" as const,
    summary: "Bash",
    did: "Bash ls; Edit src/a.ts (failed)",
    tool_path: "/dev/shell",
    has_error: false,
    duration_ms: 12,
    token_count: 1500,
    context: 1200,
    cost_usd: null,
  };
  const detail: StepDetail = {
    v: 1,
    ...REF,
    step: 1,
    ts: summary.ts,
    messages: [
      { role: "user", content: "do it" },
      {
        role: "assistant",
        content: "I look.",
        tool_calls: [{ id: "1", name: "Bash", input: { command: "ls" } }],
      },
    ],
    raw_response: "",
    action: "tool_call",
    summary: "Bash: ls",
    tool_calls: [
      {
        id: "1",
        name: "Bash",
        path: "/dev/shell",
        input: { command: "ls" },
        result: null,
        error: "no such file",
        error_code: "DRIVER",
        started_at: summary.ts,
        duration_ms: 12,
        state: "failed",
      },
    ],
    usage: { input_tokens: 1400, output_tokens: 100, cached_tokens: 0 },
    tokens_used: 1500,
    tool_path: "/dev/shell",
    tool_input: { command: "ls" },
    tool_result: null,
    tool_error: "no such file",
    kept_results: [{ id: "1", path: "/data/results/ab.txt", bytes: 2048, problem: "ab.txt is missing" }],
  };

  test("lists the steps, or prints one step whole", async () => {
    const damaged = [{ file: "/data/steps.jsonl", count: 3, lines: [3, 7], foreign: 0 }];
    const answers = {
      list_steps: { steps: [summary], total: 1, parse_errors: 3, damaged },
      get_step_detail: detail,
    };
    const list = await run(["steps", "7"], { answers });
    expect(list.out).toMatchSnapshot();
    expect(list.err).toBe("/data/steps.jsonl: lines 3, 7 and 1 more are damaged and left out\n");
    const one = await run(["steps", "7", "1"], { answers });
    expect(one.out).toMatchSnapshot();
    expect(one.err).toBe("ab.txt is missing\n");
    expect(one.io.payloads("get_step_detail")).toEqual([{ pid: 7, cwd: "/project", step: 1 }]);
    expect(JSON.parse((await run(["steps", "7", "--json"], { answers })).out)).toEqual([summary]);
    expect(JSON.parse((await run(["steps", "7", "1", "--json"], { answers })).out)).toEqual(detail);
  });

  test.each(["0", "-1", "x", "1.5"])("refuses %s as the number of a step", async (n) => {
    expect((await run(["steps", "--", "7", n])).code).toBe(64);
  });
});

describe("rnix log", () => {
  const events: StreamEvent[] = [
    entry(1, "thought", "hm"),
    entry(1, "text", "I look."),
    ...bash(1, "ls", "a"),
    entry(2, "text", "Done."),
    { type: "eof", payload: { dropped: 4 } },
  ];

  test("prints one entry per event", async () => {
    const { code, out, err, io } = await run(["log", "7"], { answers: { attach_log: REF }, events });
    expect(code).toBe(0);
    expect(out).toMatchSnapshot();
    expect(err).toContain("4 entries were dropped");
    expect(io.payloads("attach_log")).toEqual([{ pid: 7, cwd: "/project", follow: false }]);
  });

  test("-f follows, --json is one entry per line", async () => {
    const { out, io } = await run(["log", "7", "-f", "--json"], { answers: { attach_log: REF }, events });
    expect(
      out
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line).text),
    ).toEqual(["hm", "I look.", "ls", "a", "Done."]);
    expect(io.payloads("attach_log")[0]?.follow).toBe(true);
  });
});

describe("rnix strace", () => {
  const event = {
    timestamp_ms: 13,
    pid: 7,
    syscall: "Open",
    args: { path: "/dev/fs" },
    result: 3,
    duration_ms: 1,
  };
  const events: StreamEvent[] = [{ type: "syscall_event", payload: event }, { type: "eof" }];

  test("prints a line for each syscall, or the event", async () => {
    const answers = { attach_debug: REF };
    expect((await run(["strace", "7"], { answers, events })).out).toBe(
      '   0.013  Open(path="/dev/fs") = 3 <1.0ms>\n',
    );
    expect(JSON.parse((await run(["strace", "7", "--json"], { answers, events })).out)).toEqual(event);
  });
});

describe("rnix wait", () => {
  test.each([
    [0, "completed"],
    [2, "budget_exceeded"],
    [75, "suspended"],
    [143, "terminated"],
  ])("exits with the process's code %i", async (exit_code, exit_reason) => {
    const answers = { wait: receipt({ exit_code, exit_reason }) };
    const { code, out, err } = await run(["wait", "7"], { answers });
    expect(code).toBe(exit_code);
    expect(out).toBe("The answer.\n");
    const more = exit_code === 75 ? `; to resume it: rnix resume ${REF.uuid}` : "";
    expect(err).toBe(exit_code === 0 ? "" : `process 7: ${exit_reason} (exit ${exit_code})${more}\n`);
    expect(JSON.parse((await run(["wait", "7", "--json"], { answers })).out)).toEqual(
      receipt({ exit_code, exit_reason }),
    );
  });

  test("exits with 1 when its time is over", async () => {
    const answers = { wait: new SyscallError("TIMEOUT", "PID 7 has not ended") };
    const { code, io } = await run(["wait", "7", "--timeout", "5m"], { answers });
    expect(code).toBe(1);
    expect(io.payloads("wait")).toEqual([{ pid: 7, cwd: "/project", timeout_ms: 300_000 }]);
  });
});

describe("rnix attach", () => {
  const answers = { attach: REF };

  test("to a supervisor names no provider", async () => {
    const payload = {
      event: "spawn" as const,
      pid: 7,
      uuid: "u7",
      intent: "workers",
      provider: "",
      model: "",
      because: "",
      agent: "supervisor",
      chat: false,
      mode: "off" as const,
      attended: false,
      max_steps: null,
      context_window: null,
      started_at_ms: 0,
      elapsed_ms: 0,
    };
    const { err } = await run(["attach", "7"], { answers, events: [{ type: "progress", payload }] });
    expect(err).toContain("process 7  u7\nsupervisor workers\n");
    expect(err).not.toContain("provider");
  });

  test("follows to the end and exits with the run's code", async () => {
    const events = [SPAWNED, step(2), complete({ exit_code: 2, exit_reason: "budget_exceeded" })];
    const { code, out } = await run(["attach", "7"], { answers, events });
    expect(code).toBe(2);
    expect(out).toBe("The answer.\n");
    const json = await run(["attach", "7", "--json"], { answers, events });
    expect(
      json.out
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line)),
    ).toEqual(events);
  });

  test.each(["SIGINT", "SIGTERM"] as const)("%s detaches and leaves the run running", async (signal) => {
    const io = new FakeIo({ answers, events: [SPAWNED, new Promise<StreamEvent>(() => undefined)] });
    const code = runCommandLine(["attach", "7"], io);
    await io.whenAsked("attach");
    while (io.listening === 0) await Promise.resolve();
    io.signal(signal);
    expect(await code).toBe(0);
    expect(io.stderr.text).toContain("process 7 is still running: rnix attach 7");
    expect(io.listening).toBe(0);
    expect(io.asked.map(({ method }) => method)).toEqual(["attach"]);
  });
});

describe("signals", () => {
  const answers = { signal_tree: { ...REF, affected: 3 }, kill: { ...REF, affected: 0 } };

  test.each([
    [[], 1],
    [["-s", "TERM"], 1],
    [["-s", "SIGKILL"], 2],
    [["-s", "int"], 3],
    [["--signal", "4"], 4],
    [["-s5"], 5],
  ])("rnix kill %j 7 sends %i to the tree", async (flags, signal) => {
    const { code, err, io } = await run(["kill", ...flags, "7"], { answers });
    expect(code).toBe(0);
    expect(io.payloads("signal_tree")).toEqual([{ pid: 7, cwd: "/project", signal }]);
    expect(err).toContain("3 processes");
  });

  test("--no-tree sends the signal to one process", async () => {
    const { io, err } = await run(["kill", "--no-tree", "7"], { answers });
    expect(io.asked.map(({ method }) => method)).toEqual(["kill"]);
    expect(err).toBe("process 7: it has ended already, TERM was not sent\n");
  });

  test("prints for a suspended run that it has ended, with how many others", async () => {
    const ended = { signal_tree: { ...REF, affected: 3, was_suspended: true } } as const;
    const { err } = await run(["kill", "7"], { answers: ended });
    expect(err).toBe("process 7: it was suspended; TERM has ended it and 2 runs below it\n");
  });

  test.each([
    ["pause", 4],
    ["continue", 5],
  ])("rnix %s sends %i", async (command, signal) => {
    const { io } = await run([command, "7", "0199"], { answers });
    expect(io.payloads("signal_tree")).toEqual([
      { pid: 7, cwd: "/project", signal },
      { uuid: "0199", cwd: "/project", signal },
    ]);
  });

  test("a failure for one process does not stop the others, and sets the exit code", async () => {
    const { code, err, io } = await run(["kill", "7", "8"], {
      answers: { signal_tree: new SyscallError("NOT_FOUND", "No process") },
    });
    expect(code).toBe(64);
    expect(err).toBe("rnix: No process\nrnix: No process\n");
    expect(io.asked).toHaveLength(2);
  });

  test.each([
    [["-9", "7"], "unknown flag -9"],
    [["-15", "7"], "unknown flag -1"],
    [["-KILL", "7"], "write a signal as -s KILL"],
    [["-s", "9", "7"], "did you mean -s KILL?"],
    [["-s", "15", "7"], "expected TERM (1), KILL (2), INT (3), PAUSE (4), RESUME (5)"],
    [["-s", "TREM", "7"], "did you mean -s TERM?"],
    [["-s", "0", "7"], 'got "0"'],
  ])("rnix kill %j is refused with a hint", async (args, hint) => {
    const { code, err, io } = await run(["kill", ...args], { answers });
    expect(code).toBe(64);
    expect(err).toContain(hint);
    expect(io.asked).toEqual([]);
  });
});

describe("rnix suspend", () => {
  test("prints the command that resumes it", async () => {
    const answers = { suspend: { ...REF, state: "suspended" as const, step: 3 } };
    const { code, out, err, io } = await run(["suspend", "7"], { answers });
    expect({ code, out }).toEqual({ code: 0, out: "" });
    expect(err).toBe(`process 7: suspended at step 3; to resume it: rnix resume ${REF.uuid}\n`);
    expect(io.payloads("suspend")).toEqual([{ pid: 7, cwd: "/project" }]);
  });
});

describe("rnix compact", () => {
  const answer = { ...REF, pre_tokens: 9000, post_tokens: 3000, summarised_by: "model" as const };

  test("prints the tokens before and after", async () => {
    const { code, out, err, io } = await run(["compact", "7"], { answers: { compact: answer } });
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(out).toBe("process 7: about 9000 tokens before, 3000 after, summarised by its model\n");
    expect(io.payloads("compact")).toEqual([{ pid: 7, cwd: "/project" }]);
  });

  test("says when compaction saves nothing, and prints the answer with --json", async () => {
    const compact = { ...answer, post_tokens: 9000, summarised_by: null };
    expect((await run(["compact", "7"], { answers: { compact } })).out).toContain("can't make it smaller");
    const { out } = await run(["compact", "7", "--json"], { answers: { compact } });
    expect(JSON.parse(out)).toEqual(compact);
  });
});

describe("rights", () => {
  const answer = { ...REF, allowed_tools: ["Bash(git *)", "Read"], denied_tools: ["Write"] };
  const answers = { allow: answer, deny: answer };

  test.each(["allow", "deny"] as const)(
    "rnix %s names the tools and prints the remaining ones",
    async (command) => {
      const { code, out, err, io } = await run([command, "7", "Bash(git *)", "Read"], { answers });
      expect(code).toBe(0);
      expect(io.payloads(command)).toEqual([{ pid: 7, cwd: "/project", tools: ["Bash(git *)", "Read"] }]);
      expect(err).toBe("process 7 may use: Bash(git *), Read\ndenied: Write\n");
      expect(out).toBe("");
    },
  );

  test("--json prints only the answer", async () => {
    const { out, err } = await run(["allow", "0199", "Read", "--json"], { answers });
    expect(JSON.parse(out)).toEqual(answer);
    expect(err).toBe("");
  });

  test("a run without any tool left is shown as that", async () => {
    const nothing = { ...REF, allowed_tools: [], denied_tools: [] };
    const { err } = await run(["deny", "7", "*"], { answers: { deny: nothing } });
    expect(err).toBe("process 7 may use: nothing\n");
  });

  test.each([
    [["7"], "TOOL is missing"],
    [["nonsense", "Read"], "expected a PID, a UUID"],
    [["7", ""], "expected a tool"],
  ])("rnix allow %j is refused", async (args, hint) => {
    const { code, err, io } = await run(["allow", ...args], { answers });
    expect(code).toBe(64);
    expect(err).toContain(hint);
    expect(io.asked).toEqual([]);
  });

  test.each(["allow", "deny"])("rnix %s is refused inside a run", async (command) => {
    const { code, err, io } = await run([command, "7", "Read"], { answers, env: { RNIX_UNIT: "u1" } });
    expect(code).toBe(1);
    expect(err).toContain("refused inside a run");
    expect(io.asked).toEqual([]);
  });
});

describe("rnix providers", () => {
  const held = (...models: string[]): QueueWire => ({
    running: 2,
    waiting: 3,
    trees: 1,
    at_once: 16,
    at_once_max: 32,
    requests_last_minute: 12,
    requests_per_minute: 50,
    holds: models.map((model) => ({ model, until_ms: 9000, left_ms: 8100, why: "" })),
    reported: {},
    requests: 40,
    refused: 1,
    calls: 2,
  });
  const openai = {
    name: "openai",
    device: "/dev/llm/openai",
    model: "model-1",
    models: [],
    base_url: null,
    key: "OPENAI_API_KEY",
    usable: true,
    because: "its key is set",
    chosen: true,
  };
  const models = [1, 2, 3, 4, 5].map((n) => `a-model-with-a-name-of-its-own-${n}`);
  const answer = (queues: QueueWire[]) => ({
    answers: { list_providers: { providers: [{ ...openai, queues }], diagnostics: [] } },
  });

  test.each([false, true])(
    "keeps to 80 columns with five models on hold (terminal: %p)",
    async (stdoutTTY) => {
      const { code, out } = await run(["providers"], { ...answer([held(...models), held()]), stdoutTTY });
      expect(code).toBe(0);
      const lines = out.trimEnd().split("\n");
      expect(lines.filter((line) => Bun.stringWidth(line) > 80)).toEqual([]);
      expect(lines.slice(2)).toEqual([
        "",
        "openai: 2/16 running, 3 waiting, 12 of 50 requests this minute",
        ...models.map((model) => `  ${model} on hold for 9 s`),
        "openai: 2/16 running, 3 waiting, 12 of 50 requests this minute",
      ]);
    },
  );

  test("prints equal lines of several keys as one", async () => {
    const { out } = await run(["providers"], answer([held(), held("m"), held()]));
    expect(out.trimEnd().split("\n").slice(3)).toEqual([
      "openai (2 keys, each): 2/16 running, 3 waiting, 12 of 50 requests this minute",
      "openai: 2/16 running, 3 waiting, 12 of 50 requests this minute",
      "  m on hold for 9 s",
    ]);
  });

  test("prints only the table when no provider was used, and only JSON with --json", async () => {
    expect((await run(["providers"], answer([]))).out.trimEnd().split("\n")).toHaveLength(2);
    const { out } = await run(["providers", "--json"], answer([held(...models)]));
    expect(JSON.parse(out)[0].queues[0].holds).toHaveLength(5);
  });
});
