import { describe, expect, test } from "bun:test";
import { lookOf } from "../../../src/cli/terminal/look.ts";
import {
  freshQuestion,
  type QuestionState,
  questionKey,
  questionView,
} from "../../../src/cli/terminal/questions/question-block.ts";
import { QuestionPanel } from "../../../src/cli/terminal/questions/question-panel.ts";
import { widthOf } from "../../../src/cli/terminal/width.ts";
import { SyscallError } from "../../../src/plugin/index.ts";
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
    call_id: "c1",
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
): { state: QuestionState } | { answers: AskAnswer[] } {
  let state = freshQuestion(ask);
  for (const key of keys) {
    const result = questionKey(ask, state, key ?? "");
    if (result === null) continue;
    if ("answers" in result) return { answers: result.answers };
    state = result.state;
  }
  return { state };
}

describe("the keys of a permission", () => {
  test.each([
    [["1", ENTER], [{ choices: ["yes"] }]],
    [["y", ENTER], [{ choices: ["yes"] }]],
    [["n", ENTER], [{ choices: ["no"] }]],
    [["N", ENTER], [{ choices: ["no"] }]],
    [["2", "3", ENTER], [{ choices: ["no"] }]],
    [["n", BACK, ENTER], [{ choices: ["yes"] }]],
    [["y", DOWN, ENTER], [{ choices: ["always"] }]],
    [["n", TAB, "x", ENTER], [{ choices: ["no"], text: "x" }]],
    [[ENTER], [{ choices: ["yes"] }]],
    [[UP, ENTER], [{ choices: ["no"] }]],
    [[DOWN, DOWN, ENTER], [{ choices: ["no"] }]],
    [[ESC], [{ choices: ["no"] }]],
    [[TAB, "x", "é", BACK, " ", "y", ENTER], [{ choices: ["yes"], text: "x y" }]],
    [[UP, TAB, "n", "o", ENTER], [{ choices: ["no"], text: "no" }]],
    [[TAB, "1", ENTER], [{ choices: ["yes"], text: "1" }]],
    [["a", ENTER], [{ choices: ["always"] }]],
    [["a", TAB, ENTER], [{ choices: ["always"], rules: ["Bash(git push *)"] }]],
    [["a", TAB, BACK, BACK, BACK, ")", ENTER], [{ choices: ["always"], rules: ["Bash(git push)"] }]],
    [["a", TAB, ",", "R", ENTER], [{ choices: ["always"], rules: ["Bash(git push *)", "R"] }]],
  ])("%j answers %j", (keys, answers) => {
    expect(after(permission(), ...keys)).toEqual({ answers });
  });

  test.each([[["1"]], [["2", "2"]], [["y"]], [["n"]], [["9"]], [["x"]], [["\x1b[5~"]], [[TAB, "n", ESC]]])(
    "%j answers nothing",
    (keys) => {
      expect(after(permission(), ...keys)).toHaveProperty("state");
    },
  );
});

/** A question of the model's for each of these. */
function question(...questions: Partial<AskUser["questions"][number]>[]): AskUser {
  return permission({
    kind: "question",
    call: null,
    questions: questions.map((one, i) => ({
      question: `Question ${i + 1}?`,
      options: [],
      multi: false,
      text: true,
      ...one,
    })),
  });
}

function options(...labels: string[]) {
  return labels.map((label, i) => ({ id: String(i + 1), label }));
}

describe("the keys of a model's question", () => {
  const which = question({ options: options("red", "green", "blue"), default: ["2"] });
  const several = question({ options: options("red", "green", "blue"), multi: true });
  const words = question({});
  test.each([
    ["the default is chosen first", which, [ENTER], [{ choices: ["2"] }]],
    ["a number and Enter choose", which, ["3", ENTER], [{ choices: ["3"] }]],
    ["the last of several numbers", which, ["3", "1", ENTER], [{ choices: ["1"] }]],
    ["own words, without Tab", which, ["n", "o", "n", "e", ENTER], [{ choices: [], text: "none" }]],
    [
      "own words that begin with a number",
      which,
      ["3", "2", " ", "a", ENTER],
      [{ choices: [], text: "32 a" }],
    ],
    ["own words, by Tab", which, [TAB, "p", "i", "n", "k", ENTER], [{ choices: [], text: "pink" }]],
    ["own words, by the last row", which, [UP, UP, ENTER, "x", ENTER], [{ choices: [], text: "x" }]],
    ["own words, by its number", which, ["4", "x", ENTER], [{ choices: [], text: "x" }]],
    ["several", several, ["1", "3", ENTER], [{ choices: ["1", "3"] }]],
    ["several, by Space", several, [" ", DOWN, DOWN, " ", ENTER], [{ choices: ["1", "3"] }]],
    [
      "of several, own words that begin with a number",
      several,
      ["3", " ", "a", ENTER],
      [{ choices: [], text: "3 a" }],
    ],
    ["several and own words", several, ["1", TAB, "x", ENTER], [{ choices: ["1"], text: "x" }]],
    ["only words", words, ["h", "i", ENTER], [{ choices: [], text: "hi" }]],
    ["no answer, by Esc", question({}, {}), [ESC], [{ choices: [] }, { choices: [] }]],
    ["no answer, by Esc on a list", which, [ESC], [{ choices: [] }]],
    [
      "an empty line takes the default",
      question({ default_text: "v1" }),
      [ENTER],
      [{ choices: [], text: "v1" }],
    ],
    [
      "one after the other, and back again",
      question({ options: options("a", "b") }, { options: options("c", "d") }, {}),
      ["1", ENTER, "\x1b[D", "2", ENTER, "2", ENTER, "o", "k", ENTER],
      [{ choices: ["2"] }, { choices: ["2"] }, { choices: [], text: "ok" }],
    ],
  ] as const)("%s", (_title, ask, keys, answers) => {
    expect(after(ask, ...keys)).toEqual({ answers: [...answers] } as never);
  });

  test.each([
    ["y is no choice", which, ["y"]],
    ["a number alone is none", which, ["1"]],
    ["a space alone is none", which, [" "]],
    ["Enter marks nothing", several, [ENTER]],
    ["an unmarked option is none", several, ["1", "1", ENTER]],
    ["an empty text is none", words, [ENTER]],
    ["Tab closes a text", which, [TAB, "x", TAB]],
  ])("%s", (_title, ask, keys) => expect(after(ask, ...keys)).toHaveProperty("state"));

  test("each has its header, its number and its default", () => {
    const ask = question(
      { header: "Colour", options: options("red", "green"), default: ["2"] },
      { question: "Why?", default_text: "no reason" },
    );
    const size = { columns: 80, rows: 20, waiting: 1, left: "5m" };
    expect(questionView(ask, freshQuestion(ask), size, LOOK).lines).toEqual([
      "? coder (agent of process 3) needs your answer",
      "  Colour (1/2): Question 1?",
      "  1 red",
      "> 2 green",
      "  3 something else: your own words",
      "  Enter chooses, Esc: no answer - 5m left",
    ]);
    const second = freshQuestion(ask, [{ choices: ["1"] }]);
    expect(questionView(ask, second, size, LOOK).lines.slice(1)).toEqual([
      "  2/2: Why?",
      "  your answer: |",
      "  Enter sends it, empty: no reason, Left goes back, Esc: no answer - 5m left",
    ]);
  });
});

describe("the lines", () => {
  test("name who asks, what, why and the choices", () => {
    const size = { columns: 80, rows: 20, waiting: 2, left: "5m" };
    expect(questionView(permission(), freshQuestion(permission()), size, LOOK).lines).toEqual([
      "? coder (agent of process 3) needs your answer - 1 of 2",
      "  Bash git push",
      "  asked because of the ask rule Bash",
      "  the model says: publish it",
      "> 1 Yes",
      "  2 Always Bash(git push *)  until this run ends",
      "  3 No",
      "  Enter chooses, Tab adds an instruction, Esc: no - 5m left",
    ]);
  });

  test("continue a long choice below its words", () => {
    const lines = questionView(
      permission(),
      freshQuestion(permission()),
      { columns: 40, rows: 20, waiting: 1, left: "5m" },
      LOOK,
    ).lines;
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
      const lines = questionView(
        ask,
        freshQuestion(ask),
        { columns, rows, waiting: 1, left: "5m" },
        LOOK,
      ).lines;
      expect(lines.length).toBeLessThanOrEqual(rows);
      for (const line of lines) expect(widthOf(line)).toBeLessThanOrEqual(columns);
      expect(lines.join("\n")).toContain("3 No");
    }
  });
});

describe("a panel", () => {
  function panel(fails: () => void = () => undefined) {
    const sent: [string, AskAnswer[]][] = [];
    const said: string[] = [];
    const clock = { now: 0, typed: "" };
    let interrupts = 0;
    const made = new QuestionPanel({
      send: async (id, answers) => {
        fails();
        sent.push([id, answers]);
      },
      now: () => clock.now,
      say: (line) => void said.push(line),
      interrupt: () => interrupts++,
      holdsText: () => clock.typed !== "",
      type: (key) => {
        clock.typed += key;
      },
    });
    const lines = () => made.lines({ columns: 80, rows: 20 }, LOOK);
    return { made, sent, said, clock, lines, interrupts: () => interrupts };
  }

  test("prints what it had to cut before a yes, and asks once more; a no needs nothing", () => {
    const { made, sent, said, clock, lines } = panel();
    const command = Array.from({ length: 40 }, (_, i) => `echo ${i}`).join("\n");
    for (const id of ["a1", "a2"]) made.ask(permission({ request_id: id }, command));
    const wait = (): void => {
      lines();
      clock.now += 2_000;
    };
    wait();
    made.key(ENTER);
    expect([sent, said.length]).toEqual([[], 41]);
    expect(said).toContain("echo 39");
    made.key(ENTER);
    expect(sent).toEqual([["a1", [{ choices: ["yes"] }]]]);
    made.over({ ...permission(), verdict: "yes", by: "user" });
    wait();
    made.key("n");
    made.key(ENTER);
    expect(sent).toHaveLength(2);
  });

  test("an answer that does not fit leaves the question open", async () => {
    const { made, said, clock, lines } = panel(() => {
      throw new SyscallError("INVALID", "it does not cover this call");
    });
    made.ask(permission());
    clock.now += 2_000;
    made.key(ENTER);
    await settled();
    expect(said).toEqual(["it does not cover this call"]);
    expect(lines().join()).toContain("Bash git push");
  });

  test("takes no key before it was seen, nor while the person types; Enter ends the words only", () => {
    const { made, sent, clock, lines } = panel();
    expect(made.key("h")).toBe(false);
    made.ask(permission());
    expect(lines()[0]).toStartWith("Waiting for permission... Bash git push");
    for (const key of ["i", "o"]) {
      clock.now += 500;
      expect(made.key(key)).toBe(false);
    }
    expect(made.key("\r")).toBe(false);
    clock.now += 999;
    expect([made.isActive, made.takesInput]).toEqual([false, false]);
    clock.now += 1;
    expect([made.isActive, made.takesInput]).toEqual([true, true]);
    expect(lines()[0]).toContain("needs your answer");
    expect(made.key("\r")).toBe(true);
    expect(sent).toEqual([["a1", [{ choices: ["yes"] }]]]);
  });

  test("takes no key in its first second, and loses none of a word; arrows and Enter work from then on", () => {
    const { made, sent, clock } = panel();
    made.ask(permission());
    clock.now += 900;
    // They would move in the history of the line, or send what it offers.
    for (const key of ["\x1b[B", "\x1b[A", "\r", "\t"]) expect(made.key(key)).toBe(true);
    expect(made.key("h")).toBe(false);
    clock.typed = "h";
    clock.now += 100;
    expect([made.key("i"), sent]).toEqual([false, []]);
    clock.typed = "hi";
    clock.now += 50;
    expect([made.key("\x1b[A"), made.key("\r"), clock.typed]).toEqual([true, true, "hi"]);
    expect(sent).toEqual([["a1", [{ choices: ["no"] }]]]);
  });

  test("an arrow in the first second does not put Enter off", () => {
    const { made, sent, clock } = panel();
    made.ask(permission());
    for (const key of ["\x1b[B", "\x1b[A"]) {
      clock.now += 500;
      made.key(key);
    }
    clock.now += 1;
    expect([made.key("\r"), sent.length]).toEqual([true, 1]);
  });

  test("in a conversation shows no time that runs out", () => {
    const { made, lines } = panel();
    made.ask(permission({ until_ms: null }));
    expect(lines().at(-1)).toEndWith("Esc: no");
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

  test.each(["y", "n", "1", "a", "12"])(
    "%s may begin a message: then it is typed, and answers nothing",
    (keys) => {
      const { made, sent, clock, lines } = panel();
      made.ask(permission());
      for (const key of keys) {
        clock.now += 2_000;
        expect([made.key(key), clock.typed]).toEqual([true, ""]);
      }
      clock.now += 60_000;
      expect([made.key("o"), clock.typed]).toEqual([false, keys]);
      clock.typed += "o";
      clock.now += 60_000;
      expect(lines().join("\n")).toMatch(
        /> 1 Yes[\s\S]*Enter sends your message, an arrow key turns to the question/,
      );
      expect([made.key("\r"), sent]).toEqual([false, []]);
    },
  );

  test("a letter selects, and Enter answers", () => {
    const { made, sent, clock, lines } = panel();
    made.ask(permission());
    clock.now += 2_000;
    expect([made.key("n"), sent.length, lines().join()]).toEqual([
      true,
      0,
      expect.stringContaining("> 3 No"),
    ]);
    clock.now += 60_000;
    expect([made.key("\r"), sent]).toEqual([true, [["a1", [{ choices: ["no"] }]]]]);
  });

  test.each([
    ["words for a model's question", question({}), "Maria DB", "Maria DB"],
    ["a reason", permission(), "n\tnot on main", "not on main"],
    ["an edited rule", permission(), "a\t *", ""],
  ])("%s, typed while another terminal answers", (_, ask, keys, typed) => {
    const { made, clock } = panel();
    made.ask(ask);
    clock.now += 2_000;
    for (const key of keys.match(/\x1b\[B|./gs) ?? []) made.key(key);
    made.over({ ...ask, verdict: "answered", by: "user" });
    expect(clock.typed).toBe(typed);
  });

  test("a letter does not select an option of the next question", () => {
    const { made, sent, clock } = panel();
    made.ask(permission());
    made.ask(permission({ request_id: "a2" }));
    clock.now += 2_000;
    made.key("n");
    made.over({ pid: 3, uuid: "u", request_id: "a1", verdict: "no", by: "user" });
    clock.now += 2_000;
    made.key("\r");
    expect(sent).toEqual([["a2", [{ choices: ["yes"] }]]]);
  });

  test("a pasted text is a message beside a permission, and an answer to a question", () => {
    const { made, sent, clock } = panel();
    made.ask(permission());
    clock.now += 2_000;
    made.key("n");
    expect([made.paste("pasted\ntext"), clock.typed]).toEqual([false, "n"]);
    clock.typed = "";
    made.over({ pid: 3, uuid: "u", request_id: "a1", verdict: "no", by: "user" });
    made.ask(question({ options: options("red", "green") }));
    clock.now += 2_000;
    expect([made.paste("pasted\ntext"), made.key("\r")]).toEqual([true, true]);
    expect(sent).toEqual([["a1", [{ choices: [], text: "pasted text" }]]]);
  });

  test.each(["\x0f", "\x04", "\x13"])("%j is no key of a question", (key) => {
    const { made, clock } = panel();
    made.ask(permission());
    clock.now += 2_000;
    expect([made.key(key), made.isActive]).toEqual([false, true]);
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
