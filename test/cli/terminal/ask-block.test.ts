import { describe, expect, test } from "bun:test";
import { type AskState, askKey, askLines, FRESH_ASK } from "../../../src/cli/terminal/ask-block.ts";
import { AskPanel } from "../../../src/cli/terminal/ask-panel.ts";
import { lookOf } from "../../../src/cli/terminal/look.ts";
import { widthOf } from "../../../src/cli/terminal/width.ts";
import type { AskAnswer, AskUser } from "../../../src/protocol/methods.ts";
import { settled } from "../../support/fake-clock.ts";

const LOOK = lookOf({ env: { RNIX_ASCII: "1", NO_COLOR: "1" }, stdout: { isTTY: true } as never });
const [ENTER, ESC, TAB, UP, DOWN, BACK] = ["\r", "\x1b", "\t", "\x1b[A", "\x1b[B", "\x7f"];

function permission(more: Partial<AskUser> = {}, command = "git push"): AskUser {
  return {
    request_id: "a1",
    kind: "permission",
    pid: 3,
    uuid: "u",
    agent: "coder",
    depth: 1,
    intent: "do",
    step: 1,
    asked_at_ms: 0,
    until_ms: 300_000,
    call: {
      tool: "Bash",
      path: "/dev/shell",
      subject: command,
      input: { command },
      rules: ["Bash"],
      always: ["Bash(git push *)"],
      reason: "publish it",
    },
    questions: [
      {
        question: "Allow it?",
        options: [
          { id: "yes", label: "Yes" },
          { id: "always", label: "Always Bash(git push *)", about: "until this run ends" },
          { id: "no", label: "No" },
        ],
        multi: false,
        text: true,
        default: ["no"],
      },
    ],
    ...more,
  };
}

/** The state or the answers after these keys. */
function after(
  ask: AskUser,
  ...keys: (string | undefined)[]
): { state: AskState } | { answers: AskAnswer[] } {
  let state = FRESH_ASK;
  for (const key of keys) {
    const result = askKey(ask, state, key ?? "");
    if (result === null) continue;
    if ("answers" in result) return { answers: result.answers };
    state = result.state;
  }
  return { state };
}

describe("the keys of a permission", () => {
  test.each([
    [["1"], [{ choices: ["yes"] }]],
    [["y"], [{ choices: ["yes"] }]],
    [["n"], [{ choices: ["no"] }]],
    [[ENTER], [{ choices: ["yes"] }]],
    [[UP, ENTER], [{ choices: ["no"] }]],
    [[DOWN, DOWN, ENTER], [{ choices: ["no"] }]],
    [[ESC], [{ choices: ["no"] }]],
    [[TAB, "x", "é", BACK, " ", "y", ENTER], [{ choices: ["yes"], text: "x y" }]],
    [[UP, TAB, "n", "o", ENTER], [{ choices: ["no"], text: "no" }]],
    [[TAB, "1", ENTER], [{ choices: ["yes"], text: "1" }]],
    // What is allowed for longer is chosen in two steps.
    [["a", ENTER], [{ choices: ["always"] }]],
    [["2", "2"], [{ choices: ["always"] }]],
  ])("%j answers %j", (keys, answers) => {
    expect(after(permission(), ...keys)).toEqual({ answers });
  });

  test.each([[["2"]], [["a"]], [["9"]], [["x"]], [["\x1b[5~"]], [[TAB, "n", ESC]]])(
    "%j answers nothing",
    (keys) => {
      expect(after(permission(), ...keys)).toHaveProperty("state");
    },
  );
});

test("a question of the model's: several at once, and several choices of one", () => {
  const option = (id: string) => ({ id, label: id });
  const ask = permission({
    kind: "question",
    call: null,
    questions: [
      { question: "Which?", options: [option("a"), option("b"), option("c")], multi: true, text: false },
      { question: "Why?", options: [], multi: false, text: true, default: ["x"] },
    ],
  });
  expect(after(ask, "1", "3", ENTER, TAB, "so", ENTER)).toEqual({
    answers: [{ choices: ["a", "c"] }, { choices: [], text: "so" }],
  });
  expect(after(ask, ENTER)).toHaveProperty("state");
  expect(after(ask, "1", "1", ENTER)).toHaveProperty("state");
});

describe("the lines", () => {
  test("name who asks, what, why and the choices", () => {
    const size = { columns: 80, rows: 20, waiting: 2, left: "5m" };
    expect(askLines(permission(), FRESH_ASK, size, LOOK)).toEqual([
      "? coder (agent of process 3) needs your answer - 1 of 2",
      "  Bash git push",
      "  ask rule Bash",
      "  the model says: publish it",
      "> 1 Yes",
      "  2 Always Bash(git push *)  until this run ends",
      "  3 No",
      "  Enter chooses, Tab adds an instruction, Esc: no - 5m left",
    ]);
  });

  test("continue a long choice below its words", () => {
    const lines = askLines(permission(), FRESH_ASK, { columns: 40, rows: 20, waiting: 1, left: "5m" }, LOOK);
    const at = lines.findIndex((line) => line.includes("2 Always"));
    expect(lines[at + 1]).toMatch(/^ {4}\w/);
  });

  test("fit any size, and hide no choice", () => {
    const ask = permission(
      {},
      Array.from({ length: 50 }, (_, n) => `echo line ${n} ${"x".repeat(90)}`).join("\n"),
    );
    for (const [columns, rows] of [
      [80, 12],
      [40, 14],
      [24, 16],
    ] as const) {
      const lines = askLines(ask, FRESH_ASK, { columns, rows, waiting: 1, left: "5m" }, LOOK);
      expect(lines.length).toBeLessThanOrEqual(rows);
      for (const line of lines) expect(widthOf(line)).toBeLessThanOrEqual(columns);
      expect(lines.join("\n")).toContain("3 No");
    }
  });
});

describe("a panel", () => {
  function panel() {
    const sent: [string, AskAnswer[]][] = [];
    const clock = { now: 0, typed: "" };
    let interrupts = 0;
    const made = new AskPanel({
      send: async (id, answers) => void sent.push([id, answers]),
      now: () => clock.now,
      say: () => undefined,
      interrupt: () => interrupts++,
      holdsText: () => clock.typed !== "",
    });
    const lines = () => made.lines({ columns: 80, rows: 20 }, LOOK);
    return { made, sent, clock, lines, interrupts: () => interrupts };
  }

  test("takes no key before it was seen, nor while the person types; Enter ends the words only", () => {
    const { made, sent, clock, lines } = panel();
    expect(made.key("h")).toBe(false);
    made.ask(permission());
    expect(lines()[0]).toStartWith("Waiting for permission... Bash git push");
    for (const key of ["i", "\r"]) {
      clock.now += 500;
      expect(made.key(key)).toBe(false);
    }
    clock.now += 999;
    expect([made.isActive, made.takesInput]).toEqual([false, false]);
    clock.now += 1;
    expect([made.isActive, made.takesInput]).toEqual([true, true]);
    expect(lines()[0]).toContain("needs your answer");
    expect(made.key("\r")).toBe(true);
    expect(sent).toEqual([["a1", [{ choices: ["yes"] }]]]);
  });

  test("gives letters that choose nothing to the input line, and takes no Enter while it holds them", () => {
    const { made, sent, clock, lines } = panel();
    made.ask(permission());
    clock.now += 2_000;
    expect([made.isActive, made.key("h")]).toEqual([true, false]);
    clock.typed = "h";
    for (const key of ["\r", "1", "y"]) {
      clock.now += 60_000;
      expect([made.isActive, made.takesInput, made.key(key)]).toEqual([true, false, false]);
    }
    clock.now += 1_000;
    expect(lines()[0]).toContain("needs your answer");
    // An arrow says that the question is meant.
    expect([made.key("\x1b[A"), made.key("\r")]).toEqual([true, true]);
    expect(sent).toEqual([["a1", [{ choices: ["no"] }]]]);
  });

  test("shows the next question when one is over, wherever it was answered, and begins anew", () => {
    const { made, clock, lines } = panel();
    made.ask(permission());
    made.ask(permission({ request_id: "a2" }, "rm x"));
    expect(lines()[0]).toContain("1 of 2");
    clock.now += 2_000;
    made.key("\x1b[B");
    made.over({ pid: 3, uuid: "u", request_id: "a1", verdict: "yes", by: "user" });
    expect(lines().join()).toContain("Bash rm x");
    expect(lines().join()).toContain("> 1 Yes");
    expect(made.isActive).toBe(false);
    made.over({ pid: 3, uuid: "u", request_id: "a2", verdict: null, by: null });
    expect(lines()).toEqual([]);
  });

  test("Esc refuses, and lets the person say something else", async () => {
    const { made, sent, clock, interrupts } = panel();
    made.ask(permission());
    clock.now += 1_000;
    made.key("\x1b");
    await settled();
    expect([sent, interrupts()]).toEqual([[["a1", [{ choices: ["no"] }]]], 1]);
  });
});
