import { describe, expect, test } from "bun:test";
import { Conversations } from "../../../src/kernel/conversation/conversations.ts";
import type { Message, ToolCall } from "../../../src/plugin/index.ts";
import type { JournalEntry, StepRecord, ToolCallRecord } from "../../../src/store/runs/schema.ts";
import { eventsOf, historyOf } from "../../support/saved-history.ts";
import { seeded } from "../../support/seeded.ts";

const TS = "2026-11-20T00:00:00.000Z";
const USAGE = { input_tokens: 1, output_tokens: 2, cached_tokens: 0 };
const FIRST: Message = { role: "user", content: "do it" };

function call(id: string): ToolCall {
  return { id, name: "Bash", input: { command: id } };
}

function record(id: string, more: Partial<ToolCallRecord> = {}): ToolCallRecord {
  return {
    id,
    name: "Bash",
    path: "/dev/shell",
    input: { command: id },
    result: `did ${id}`,
    error: null,
    error_code: null,
    started_at: TS,
    duration_ms: 1,
    state: "done",
    ...more,
  };
}

function assistant(content: string, ...ids: string[]): Message {
  return { role: "assistant", content, ...(ids.length > 0 && { tool_calls: ids.map(call) }) };
}

function step(number: number, before: Message[], said: Message): StepRecord {
  return {
    v: 1,
    step: number,
    ts: TS,
    messages: [...before, said],
    raw_response: said.content,
    action: "tool_call",
    summary: "",
    tool_calls: (said.tool_calls ?? []).map(({ id }) => record(id)),
    usage: USAGE,
    tokens_used: 3,
  };
}

function answer(
  number: number,
  message: Message,
  more: Partial<JournalEntry & { t: "answer" }> = {},
): JournalEntry {
  return { t: "answer", v: 1, step: number, ts: TS, message, usage: USAGE, ...more };
}

function start(number: number, id: string, safe = false): JournalEntry {
  return {
    t: "call_start",
    step: number,
    ts: TS,
    id,
    name: "Bash",
    path: "/dev/shell",
    input: { command: id },
    safe,
  };
}

function end(number: number, id: string): JournalEntry {
  return { t: "call_end", step: number, ts: TS, call: record(id) };
}

function waiting(number: number, id: string): JournalEntry {
  return { t: "waiting", step: number, ts: TS, id, on: { on: "child", uuid: `child of ${id}` } };
}

const TURN = step(1, [FIRST], assistant("first", "a"));
const ASKED: Message[] = [
  FIRST,
  assistant("first", "a"),
  { role: "tool", tool_call_id: "a", content: "did a" },
];

describe("a run cut off", () => {
  test("before its first answer has its first message, which no record has", () => {
    expect(historyOf(eventsOf([], []), FIRST)).toEqual({
      step: 0,
      messages: [FIRST],
      unrecorded: [FIRST],
      asked: null,
      compactions: [],
      summary: null,
      openStep: null,
      paused: false,
    });
  });

  test("between two steps has its recorded steps", () => {
    expect(historyOf(eventsOf([TURN], []), FIRST)).toEqual({
      step: 1,
      messages: ASKED,
      unrecorded: [],
      asked: { messages: [FIRST], tokens: TURN.usage.input_tokens },
      compactions: [],
      summary: null,
      openStep: null,
      paused: false,
    });
  });

  test("after an answer has that step open, with the messages that came before it", () => {
    const news: Message = { role: "user", content: "news" };
    const journal = [answer(2, assistant("second", "b"), { messages: [news], inbox: [7] })];
    const history = historyOf(eventsOf([TURN], journal), FIRST);
    expect(history).toMatchObject({ step: 1, messages: [...ASKED, news], unrecorded: [news] });
    expect(history.openStep).toMatchObject({ step: 2, inbox: [7], message: assistant("second", "b") });
  });

  test("in its first step does not repeat its first message", () => {
    const history = historyOf(eventsOf([], [answer(1, assistant("x", "b"), { messages: [FIRST] })]), FIRST);
    expect(history.messages).toEqual([FIRST]);
  });

  // What is settled is not repeated; everything else is made now.
  for (const [where, journal, settled] of [
    ["before its call", [], {}],
    ["in a call that is not safe", [start(2, "b")], { b: "unknown" }],
    ["in a safe call", [start(2, "b", true)], {}],
    ["after a call", [start(2, "b"), end(2, "b")], { b: "done" }],
    ["after a safe call", [start(2, "b", true), end(2, "b")], { b: "done" }],
    ["after a call that never started", [end(2, "b")], { b: "done" }],
    ["in the second of two", [start(2, "b"), end(2, "b"), start(2, "c")], { b: "done", c: "unknown" }],
    ["in two at once", [start(2, "b", true), start(2, "c", true), end(2, "c")], { c: "done" }],
    ["in a repeated call", [start(2, "b", true), start(2, "b", true)], {}],
    ["with entries of no call of its answer", [start(2, "z"), end(2, "y")], {}],
    ["with entries of another step", [start(1, "b"), end(3, "c")], {}],
  ] satisfies [string, JournalEntry[], Record<string, string>][]) {
    test(`${where}: ${JSON.stringify(settled)}`, () => {
      const { openStep } = historyOf(
        eventsOf([TURN], [answer(2, assistant("", "b", "c")), ...journal]),
        FIRST,
      );
      const states = [...(openStep?.settled ?? [])].map(([id, { state }]) => [id, state]);
      expect(Object.fromEntries(states)).toEqual(settled);
    });
  }

  test("tells the model that a call with an unknown end may or may not have happened", () => {
    const journal = [answer(2, assistant("", "b")), start(2, "b")];
    const unknown = historyOf(eventsOf([TURN], journal), FIRST).openStep?.settled.get("b");
    expect(unknown).toMatchObject({ id: "b", input: { command: "b" }, result: null, state: "unknown" });
    expect(unknown?.error).toContain("may or may not have happened");
  });
});

test("an unreadable step in the middle is an error that names it", () => {
  const steps = [TURN, step(3, [], assistant("third"))];
  expect(() => historyOf(eventsOf(steps, []), FIRST)).toThrow(/Step 2 can't be read/);
});

/** What a person has decided about a call. */
function verdict(number: number, id: string, said: "yes" | "no"): JournalEntry {
  const asked = { what: id, rules: ["Bash"], asked_at: TS, waited_ms: 1 };
  return {
    t: "verdict",
    step: number,
    ts: TS,
    id,
    verdict: { id: "q", verdict: said, by: "user", ...asked },
  };
}

describe("a call that a person has decided", () => {
  test.each([
    [
      "may have been made after a yes",
      [start(2, "b"), waiting(2, "b"), verdict(2, "b", "yes")],
      { b: "unknown" },
    ],
    [
      "was not made after a no, and is refused again",
      [start(2, "b"), waiting(2, "b"), verdict(2, "b", "no")],
      {},
    ],
    ["is repeated after a yes if that does no harm", [start(2, "b", true), verdict(2, "b", "yes")], {}],
    ["has its recorded end", [start(2, "b"), verdict(2, "b", "no"), end(2, "b")], { b: "done" }],
  ] as const)("%s", (_, entries, settled) => {
    const { openStep } = historyOf(
      eventsOf([TURN], [answer(2, assistant("second", "b")), ...entries]),
      FIRST,
    );
    expect([...(openStep?.waiting.keys() ?? [])]).toEqual([]);
    expect(openStep?.verdicts.get("b")).toHaveLength(1);
    const states = [...(openStep?.settled ?? [])].map(([id, { state }]) => [id, state]);
    expect(Object.fromEntries(states)).toEqual(settled);
  });
});

describe("a call that waits", () => {
  test.each([
    ["is repeated", [start(2, "b"), waiting(2, "b")], ["b"], {}],
    ["also when it was begun again since", [start(2, "b"), waiting(2, "b"), start(2, "b")], ["b"], {}],
    ["not when it has ended", [start(2, "b"), waiting(2, "b"), end(2, "b")], ["b"], { b: "done" }],
    ["and another one is unknown", [start(2, "b"), waiting(2, "b"), start(2, "c")], ["b"], { c: "unknown" }],
  ] as const)("%s", (_, entries, waits, settled) => {
    const journal = [answer(2, assistant("second", "b", "c")), ...entries];
    const { openStep } = historyOf(eventsOf([TURN], journal), FIRST);
    expect([...(openStep?.waiting.keys() ?? [])]).toEqual([...waits]);
    const states = [...(openStep?.settled ?? [])].map(([id, { state }]) => [id, state]);
    expect(Object.fromEntries(states)).toEqual(settled);
  });
});

/** A provider takes it: every call is followed by its result, before anything else is said. */
function requireTakeable(messages: readonly Message[]): void {
  const open = new Set<string>();
  for (const { role, tool_calls, tool_call_id } of messages) {
    if (role === "tool") expect(open.delete(tool_call_id ?? "")).toBe(true);
    else expect([...open]).toEqual([]);
    for (const { id } of tool_calls ?? []) open.add(id);
  }
  expect([...open]).toEqual([]);
}

test("any partial record gives a conversation that a provider and the context accept", () => {
  for (let seed = 1; seed <= 300; seed++) {
    const random = seeded(seed);
    const many = (most: number): number => Math.floor(random() * (most + 1));
    const steps: StepRecord[] = [];
    for (let number = 1, most = many(4); number <= most; number++) {
      const ids = Array.from({ length: many(3) }, (_, at) => `s${number}c${at}`);
      const before: Message[] =
        number === 1 ? [FIRST] : random() < 0.3 ? [{ role: "user", content: "news" }] : [];
      steps.push(step(number, before, assistant(`step ${number}`, ...ids)));
    }
    const open = steps.length + 1;
    const ids = Array.from({ length: many(3) }, (_, at) => `open${at}`);
    const done = ids.flatMap((id) => [start(open, id, random() < 0.5), end(open, id)]);
    const journal =
      random() < 0.3 ? [] : [answer(open, assistant("open", ...ids), { messages: [FIRST] }), ...done];
    const cut = journal.slice(0, many(journal.length));
    const { messages, openStep, step: last } = historyOf(eventsOf(steps, cut), FIRST);
    requireTakeable(messages);
    expect(last).toBe(steps.length);
    const contexts = new Conversations();
    const id = contexts.ctxAlloc(Number.POSITIVE_INFINITY);
    for (const message of messages) contexts.appendMessage(id, message);
    if (!openStep) continue;
    const calls = openStep.message.tool_calls ?? [];
    for (const settled of openStep.settled.keys()) expect(calls.map((one) => one.id)).toContain(settled);
  }
});
