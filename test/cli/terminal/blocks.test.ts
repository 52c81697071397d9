import { describe, expect, test } from "bun:test";
import { blockLines, isFolded } from "../../../src/cli/terminal/blocks/block.ts";
import { endLines, resumeLine } from "../../../src/cli/terminal/blocks/end.ts";
import { liveLines } from "../../../src/cli/terminal/blocks/live.ts";
import { lookOf } from "../../../src/cli/terminal/look.ts";
import { RunState } from "../../../src/cli/transcript/run-state.ts";
import type { Block } from "../../../src/cli/transcript/transcript.ts";
import type { StreamEvent } from "../../../src/protocol/methods.ts";
import { FakeOutput, receipt, step } from "../support.ts";
import {
  activity,
  type Call,
  call,
  child,
  ended,
  NOW,
  output,
  REF,
  retry,
  SPAWNED,
  started,
  thinks,
} from "./run-events.ts";

const WIDTHS = [40, 60, 80, 120];

function look(env: Record<string, string> = {}) {
  return lookOf({ env, stdout: new FakeOutput(true) });
}
const PLAIN = look({ NO_COLOR: "1" });
const ASCII = look({ NO_COLOR: "1", RNIX_ASCII: "1" });

type Shown = Exclude<Block, { kind: "end" }>;

/** The block that a call becomes when it has ended. */
function blockOf(one: Call): Shown {
  const state = new RunState(NOW);
  const changes = [...state.apply(ended(one), NOW), ...state.apply(step(2), NOW)];
  const block = changes.flatMap((change) => (change.type === "block" ? [change.block] : []))[0];
  if (block === undefined || block.kind === "end") throw new Error("the call has no block");
  return block;
}

function lines(one: Call, columns = 80, full = false): string[] {
  return blockLines(blockOf(one), { columns, full }, PLAIN);
}

const failing = (name: string, input: Record<string, unknown>, error: string, o: Partial<Call> = {}): Call =>
  call(name, input, { state: "failed", result: null, error, error_code: "INVALID", ...o });
const numbered = (count: number): string =>
  Array.from({ length: count }, (_, i) => `line ${i + 1}`).join("\n");
const DIFF =
  'Edited total.sh:\n@@ -8,4 +8,5 @@\n total=0\n-while read -r name; do\n+while read -r name || [ -n "$name" ]; do\n+  # the last line\n   echo\n done';

/** One of each kind of call and ending. */
const CALLS: Record<string, Call> = {
  bash: call("Bash", { command: "npm test" }, { result: numbered(3) }),
  bashLong: call(
    "Bash",
    { command: `grep -rn '${"word ".repeat(40)}' src | head` },
    { result: "[no output]" },
  ),
  bashScript: call("Bash", { command: "for i in 1 2 3; do\n\techo $i\ndone" }, { result: numbered(40) }),
  bashFailed: call("Bash", { command: "npm test" }, { result: `${numbered(30)}\n[exit code 2]` }),
  bashKilled: call("Bash", { command: "x" }, { result: "a\n[ended by signal SIGSEGV]" }),
  bashLate: call("Bash", { command: "x" }, { result: "a\n[timed out after 5000 ms: the command …]" }),
  bashDenied: failing("Bash", { command: "rm -rf /" }, "denied by rule Bash(rm *)", { state: "denied" }),
  read: call("Read", { path: "src/a.ts", offset: 10, limit: 31 }, { result: "    10\tabc\n    11\tdef" }),
  readNone: failing("Read", { path: "x" }, "x: no such file", { error_code: "NOT_FOUND" }),
  grep: call("Grep", { pattern: "x", path: "src" }, { result: "src/a.ts\nsrc/b.ts" }),
  grepLines: call("Grep", { pattern: "x", output_mode: "content" }, { result: numbered(9) }),
  edit: call(
    "Edit",
    { path: "total.sh", old_string: "SECRET".repeat(20), new_string: "b" },
    { result: DIFF },
  ),
  editWrong: failing("Edit", { file: "total.sh", oldString: "a" }, "Edit: path is missing"),
  write: call("Write", { path: "new.ts", content: numbered(20) }, { result: "Created new.ts (1 KiB)." }),
  plan: call("Plan", { steps: ["one", "two"] }, { result: "The plan is noted:\n1. one\n2. two" }),
  agent: call(
    "Agent",
    { intent: "count the files", agent: "coder" },
    { result: "There are 12.\n\n[process 8, agent coder: completed, 3 steps, 1234 tokens]" },
  ),
  mcp: call(
    "mcp__github__create_issue",
    { owner: "o", title: "日本語のタイトル and words", n: 1 },
    { result: "{}" },
  ),
  wide: call("Bash", { command: `echo ${"日本語".repeat(40)}` }, { result: "漢字".repeat(80) }),
  unknown: failing("Bash", { command: "deploy" }, "It may have happened.", { state: "unknown" }),
  cut: failing("Bash", { command: "sleep 9" }, "", { state: "cancelled" }),
};

describe("every kind of call in every width", () => {
  for (const [name, one] of Object.entries(CALLS)) {
    test.each(WIDTHS)(`${name} fits %d columns`, (columns) => {
      for (const full of [false, true]) {
        for (const shown of [PLAIN, ASCII, look()]) {
          for (const line of blockLines(blockOf(one), { columns, full }, shown)) {
            expect(Bun.stringWidth(line)).toBeLessThanOrEqual(columns);
          }
        }
      }
    });
  }

  test("ASCII only where it is asked for, but for what models and programs write", () => {
    for (const [name, one] of Object.entries(CALLS)) {
      if (name === "mcp" || name === "wide" || name === "bashLate") continue;
      const text = blockLines(blockOf(one), { columns: 60 }, ASCII).join("\n");
      expect(text).toMatch(/^[\x20-\x7e\n]*$/);
    }
  });

  test("at 80 columns they look like this", () => {
    expect(
      `\n${Object.values(CALLS)
        .flatMap((one) => [...lines(one), ""])
        .join("\n")}`,
    ).toMatchSnapshot();
  });
});

describe("a call", () => {
  test("has its status and time in its own line, in red with another mark where it failed", () => {
    expect(lines(CALLS.bashFailed as Call)[0]).toBe("✖ Bash npm test · exited 2 · 2.1s");
    expect(lines(CALLS.bash as Call)[0]).toBe("● Bash npm test · 2.1s");
    const [painted = ""] = blockLines(blockOf(CALLS.bashFailed as Call), { columns: 80 }, look());
    expect(painted).toContain("\x1b[31m✖\x1b[39m");
    expect(painted).toContain("\x1b[31mexited 2\x1b[39m");
  });

  test("shows the end of a command's output and counts the rest; Ctrl+O shows it all", () => {
    const one = call("Bash", { command: "x" }, { result: numbered(40) });
    const short = lines(one);
    expect(short).toEqual([
      "● Bash x · 2.1s",
      "  │ … 35 lines above",
      ...[36, 37, 38, 39, 40].map((n) => `  │ line ${n}`),
    ]);
    expect(isFolded(blockOf(one))).toBe(true);
    expect(lines(one, 80, true)).toHaveLength(41);
    expect(lines(call("Bash", { command: "x" }, { result: numbered(6) }))).toHaveLength(7);
  });

  test("that was stopped keeps the end of what it had printed", () => {
    const stopped = failing("Bash", { command: "x" }, "The user interrupted this call.", {
      state: "cancelled",
      error_code: "CANCELLED",
    });
    expect(lines(stopped)).toEqual(["✖ Bash x · stopped · 2.1s"]);
    expect(lines({ ...stopped, result: numbered(9) })).toEqual([
      "✖ Bash x · stopped · 2.1s",
      "  │ … 4 lines above",
      ...[5, 6, 7, 8, 9].map((n) => `  │ line ${n}`),
    ]);
  });

  test("shows an edit as a diff with the lines' numbers, red and green, and not its arguments", () => {
    const painted = blockLines(blockOf(CALLS.edit as Call), { columns: 80 }, look());
    const plain = painted.map((line) => Bun.stripANSI(line));
    expect(plain).toEqual([
      "● Edit total.sh · +2 -1 · 2.1s",
      "     8   total=0",
      "     9 - while read -r name; do",
      '     9 + while read -r name || [ -n "$name" ]; do',
      "    10 +   # the last line",
      "    11     echo",
      "    12   done",
    ]);
    expect(painted[2]).toContain("\x1b[31m- while");
    expect(painted[3]).toContain("\x1b[32m+ while");
    expect(plain.join("")).not.toContain("SECRET");
  });

  test("numbers the lines of a diff of several places, and where the middle of one was left out", () => {
    const result =
      "Edited a 2 occurrences:\n@@ -3,1 +3,1 @@\n-a\n+b\n@@ -90,3 +90,40 @@\n-a\n+b\n+[… 38 more lines]\n c\n[… and 2 more changes]";
    expect(lines(call("Edit", { path: "a", old_string: "a", new_string: "b" }, { result }))).toEqual([
      "● Edit a · +2 -2 · 2.1s",
      "      3 - a",
      "      3 + b",
      "        …",
      "     90 - a",
      "     90 + b",
      "        … 38 more lines",
      "    129   c",
      "        … and 2 more changes",
    ]);
  });

  test("a progress bar shows its last state", () => {
    const one = call("Bash", { command: "x" }, { result: "10%\r50%\r100%\r\ndone" });
    expect(lines(one).slice(1)).toEqual(["  │ 100%", "  │ done"]);
  });

  test("control characters of its output do not reach the terminal", () => {
    const one = call("Bash", { command: "x\x1b]0;t\x07" }, { result: "\x1b[2Ja\x1b[31mb\x07" });
    const text = blockLines(blockOf(one), { columns: 80, full: true }, PLAIN).join("");
    expect(text).not.toMatch(/\p{Cc}/u);
  });
});

describe("the live region", () => {
  function live(
    events: readonly StreamEvent[],
    o: { columns?: number; rows?: number; now?: number; answer?: string[] } = {},
  ): string[] {
    const state = new RunState(NOW);
    for (const event of events) state.apply(event, NOW);
    const { columns = 80, rows = 23, now = NOW + 12_000, answer = [] } = o;
    return liveLines(
      state,
      {
        columns,
        rows,
        now,
        full: false,
        hints: ["ctrl-c suspends"],
        isBelowText: false,
        answer: (most) => answer.slice(-most),
      },
      PLAIN,
    ).map((line) => line.replace(/[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]/gu, "*"));
  }
  const slow = call("Bash", { command: "npm test" });
  const usage: StreamEvent = {
    type: "progress",
    payload: {
      ...{ event: "usage", ...REF, step: 3, tokens_used: 12_345, cost_usd: 0.0312 },
      ...{ context_tokens: 16_000, context_window: 200_000 },
    },
  };

  test("before the first event something moves already", () => {
    expect(live([], { now: NOW + 200 }).at(-1)).toStartWith("* starting");
  });

  test("names what it does, for how long, and what it has used", () => {
    const shown = live([SPAWNED, usage, activity("model", "waiting for m")]);
    expect(shown.at(-2)).toStartWith("* waiting for m · 12s");
    expect(shown.at(-1)).toBe("  default · m · step 3 · 12k tokens · $0.03 · 8% of 200k · 12s");
  });

  test("leaves out of the footer what matters least, and stays on one line", () => {
    const at = (columns: number): string => live([SPAWNED, usage], { columns }).at(-1) ?? "";
    expect(at(40)).toBe("  m · 12k tokens · $0.03 · 8% of 200k");
    expect(at(60)).toBe("  m · step 3 · 12k tokens · $0.03 · 8% of 200k · 12s");
  });

  test("shows the last five lines of a running command, how many are above, and the time", () => {
    const events = [SPAWNED, started(slow), output(slow, `${numbered(12)}\n`, 12)];
    expect(live(events).slice(0, 8)).toEqual([
      "* Bash npm test · 12s",
      "  │ … 7 lines above",
      ...[8, 9, 10, 11, 12].map((n) => `  │ line ${n}`),
      "",
    ]);
  });

  test("shows each running call however many there are, and never more than the screen has", () => {
    const many = Array.from({ length: 30 }, (_, i) => call("Bash", { command: `job ${i}` }));
    for (const rows of [3, 5, 8, 23]) {
      const shown = live(
        [SPAWNED, ...many.map((one) => started(one)), ...many.map((one) => output(one, numbered(9), 9))],
        { rows },
      );
      expect(shown.length).toBeLessThanOrEqual(rows);
    }
    const few = many.slice(0, 3);
    const shown = live(
      [SPAWNED, ...few.map((one) => started(one)), ...few.map((one) => output(one, numbered(99), 99))],
      { rows: 8 },
    );
    expect(shown.filter((line) => line.startsWith("* Bash job"))).toHaveLength(3);
  });

  test("nests sub-agents, each with agent, intent, doing, tokens and time", () => {
    const agent = call("Agent", { intent: "count the files", agent: "coder" });
    const shown = live([
      SPAWNED,
      started(agent),
      child({ uuid: "a", call_id: agent.id }),
      child({ uuid: "b", parent_uuid: "a", agent: "tester", intent: "run the tests" }),
      child({ uuid: "c", agent: "other", intent: "by itself" }),
    ]);
    expect(shown.slice(0, 3)).toEqual([
      "* coder count the files · Bash find . -type f · 1.2k tokens · 12s",
      "  └ * tester run the tests · Bash find . -type f · 1.2k tokens · 12s",
      "  └ * other by itself · Bash find . -type f · 1.2k tokens · 12s",
    ]);
  });

  test("counts down to the next attempt, with the reason in words and no pile of them", () => {
    const shown = live([SPAWNED, retry(1), retry(2)], { now: NOW + 1000 });
    expect(shown.filter((line) => line.includes("529"))).toHaveLength(1);
    expect(shown.slice(-3, -1)).toEqual([
      "* attempt 2 failed · next in 3s · gives up in 8m59s",
      "  OpenAI answered 529: overloaded",
    ]);
  });

  test("counts down a wait whose end is known, and stands still where the run waits for a person", () => {
    const wait = activity("slot", "waiting for a free slot of openai", { until_ms: NOW + 30_000 });
    expect(live([SPAWNED, wait]).at(-2)).toStartWith("* waiting for a free slot of openai · 12s · 18s left");
    expect(live([SPAWNED, activity("paused", "paused")]).at(-2)).toStartWith("○ paused · 12s");
  });

  test("shows reasoning while it arrives: its last lines", () => {
    const shown = live([SPAWNED, thinks(1, numbered(50))]);
    expect(shown[0]).toBe("∴ thinking");
    expect(shown[8]).toBe("  line 50");
    expect(shown.at(-2)).toStartWith("* thinking · 12s");
  });

  test("fits every size", () => {
    const agent = call("Agent", { intent: "日本語 ".repeat(50), agent: "coder" });
    const events = [
      ...[SPAWNED, usage, thinks(1, "漢字".repeat(500)), started(slow), output(slow, "漢".repeat(500), 1)],
      ...[started(agent), child({ uuid: "a", call_id: agent.id }), child({ uuid: "b", parent_uuid: "a" })],
      retry(3, `{"error": ${"x".repeat(500)}}`),
    ];
    for (const columns of WIDTHS) {
      for (const rows of [1, 2, 3, 4, 6, 10, 23]) {
        for (const count of [2, 3, 5, 6, events.length]) {
          const shown = live(events.slice(0, count), { columns, rows, answer: ["one", "two"] });
          expect(shown.length).toBeLessThanOrEqual(rows);
          expect(Math.max(...shown.map((line) => Bun.stringWidth(line)))).toBeLessThanOrEqual(columns);
        }
      }
    }
  });
});

describe("the end of a run", () => {
  const resume = `./rnix resume ${REF.uuid} --no-daemon`;

  test("has verdict, checks and receipt, and then the command that continues it", () => {
    const end = receipt({ checks: [{ command: "npm test", exit_code: 0 }], files_changed: ["a.ts"] });
    expect(endLines(end, 120, PLAIN)).toEqual([
      "check npm test: passed",
      "✔ completed · 2 steps · 1 tool call · 1.2k tokens · 2.1s · sandbox none · changed a.ts",
    ]);
    expect(resumeLine(end, resume, 120, PLAIN)).toBe(`to continue it: ${resume} "…"`);
    expect(resumeLine(end, resume, 75, PLAIN)).toBe(`to continue it:\n${resume} "…"`);
  });

  test("by a model that does not exist names the flag for another", () => {
    const error = { code: "NOT_FOUND", message: "No such model." };
    const end = receipt({ exit_code: 1, exit_reason: "llm_error", error });
    const hint = `to resume it with another model: ${resume} --model MODEL`;
    expect(resumeLine(end, resume, 200, PLAIN)).toBe(hint);
  });

  test("of a suspended run says why and what it waits for, without the command", () => {
    const suspended = {
      reason: "No answer.",
      cause: "asked",
      wake: { on: "message" },
      by_itself: true,
    } as const;
    const end = receipt({ exit_code: 75, exit_reason: "suspended", suspended });
    expect(endLines(end, 200, PLAIN)[0]).toBe(
      "suspended: No answer. It waits for a message; it resumes by itself",
    );
    expect(resumeLine(end, resume, 200, PLAIN)).toBe(`to resume it: ${resume}`);
  });

  test.each(WIDTHS)("fits %d columns", (columns) => {
    const end = receipt({
      exit_code: 1,
      exit_reason: "check_failed",
      error: { code: "INVALID", message: `it ${"failed ".repeat(50)}` },
      checks: [{ command: "npm test", exit_code: 1, output: "x".repeat(300) }],
      files_changed: ["a".repeat(90), "b".repeat(90)],
    });
    for (const line of endLines(end, columns, PLAIN)) {
      expect(Bun.stringWidth(line)).toBeLessThanOrEqual(columns);
    }
  });
});
