import { describe, expect, test } from "bun:test";
import { liveLines } from "../../../src/cli/terminal/blocks/live.ts";
import { lookOf } from "../../../src/cli/terminal/look.ts";
import { RunState } from "../../../src/cli/transcript/run-state.ts";
import type { Change } from "../../../src/cli/transcript/transcript.ts";
import type { StreamEvent } from "../../../src/protocol/methods.ts";
import { delta, entry, FakeOutput, receipt, step } from "../support.ts";
import {
  activity,
  asks,
  call,
  child,
  complete,
  ended,
  isAnswered,
  NOW,
  output,
  REF,
  retry,
  SPAWNED,
  started,
  thinks,
} from "../terminal/run-events.ts";

/** The changes that events bring, in a short form: "answer Hello", "call Bash done". */
function play(events: readonly StreamEvent[], state = new RunState(NOW)): string[] {
  const shown = events.flatMap((event) => state.apply(event, NOW));
  return shown.filter(({ type }) => !IN_THE_LIVE_REGION.has(type)).map(brief);
}

/** Plain lines print these; the live region shows their state. */
const IN_THE_LIVE_REGION: ReadonlySet<Change["type"]> = new Set(["step", "call", "thought", "retry"]);

function brief(change: Change): string {
  if (change.type === "answer") return `answer ${change.text}`;
  if (change.type === "retried") return `retried ${change.attempts}: ${change.message}`;
  if (change.type !== "block") return change.type;
  const { block } = change;
  switch (block.kind) {
    case "call":
      return `call ${block.call.name} ${block.call.state}`;
    case "reads":
      return `reads ${block.calls.length}`;
    case "message":
      return `message of ${block.from}: ${block.text}`;
    case "thought":
    case "note":
      return `${block.kind} ${block.text}`;
    case "agent":
      return `agent ${block.child.agent} ${block.child.state}`;
    case "head":
    case "end":
      return block.kind;
  }
}

const ASCII = lookOf({ env: { NO_COLOR: "1", RNIX_ASCII: "1" }, stdout: new FakeOutput(true) });
const BASH = call("Bash", { command: "npm test" });
const READ = call("Read", { path: "a.ts" });
const OTHER = call("Read", { path: "b.ts" });

describe("the transcript of a run", () => {
  test("has the reasoning before the answer it leads to, each once", () => {
    const events = [
      SPAWNED,
      step(1),
      thinks(1, "Hm."),
      thinks(1, " So."),
      delta(1, "The "),
      delta(1, "answer."),
      entry(1, "thought", "Hm. So."),
      entry(1, "text", "The answer."),
      complete(),
    ];
    expect(play(events)).toEqual([
      "head",
      "thought Hm. So.",
      "answer The ",
      "answer answer.",
      "answer_end",
      "end",
    ]);
  });

  test("has reasoning and text that did not arrive in pieces from the log", () => {
    const events = [
      SPAWNED,
      step(1),
      entry(1, "thought", "Hm."),
      entry(1, "text", "The answer."),
      complete(),
    ];
    expect(play(events)).toEqual(["head", "thought Hm.", "answer The answer.", "answer_end", "end"]);
  });

  test("keeps each result with its call, whichever ends first", () => {
    const slow = call("Bash", { command: "sleep 5" });
    const state = new RunState(NOW);
    expect(play([started(slow), started(BASH), ended(BASH)], state)).toEqual(["call Bash done"]);
    expect([...state.calls.keys()]).toEqual([slow.id]);
    expect(play([ended(slow)], state)).toEqual(["call Bash done"]);
    expect(state.calls.size).toBe(0);
  });

  test("shows a refused call, which never started", () => {
    const refused = call("Edit", { file: "a" }, { state: "failed", result: null, error: "path is missing" });
    expect(play([step(1), ended(refused)])).toEqual(["call Edit failed"]);
  });

  test("gives each file that was read by itself where they are no group", () => {
    const state = new RunState(NOW, { groupsReads: false });
    const events = [started(READ), ended(READ), started(OTHER), ended(OTHER)];
    expect(play(events, state)).toEqual(["call Read done", "call Read done"]);
  });

  test("puts the files that one answer read into one line, before what follows", () => {
    const events = [
      step(1),
      started(READ),
      started(OTHER),
      ended(READ),
      ended(OTHER),
      step(2),
      delta(2, "Done."),
    ];
    expect(play(events)).toEqual(["reads 2", "answer Done."]);
    const found = call("Glob", { pattern: "*" });
    const mixed = [started(READ), started(found), started(OTHER), ended(READ), ended(found), ended(OTHER)];
    expect(play([...mixed, complete({ result: null })])).toEqual(["call Glob done", "reads 2", "end"]);
    expect(play([ended(READ), ended(BASH), complete({ result: null })])).toEqual([
      "reads 1",
      "call Bash done",
      "end",
    ]);
  });

  test("shows a read that failed by itself", () => {
    const failed = call("Read", { path: "x" }, { state: "failed", result: null, error: "no such file" });
    expect(play([ended(failed)])).toEqual(["call Read failed"]);
  });

  test("has the result once: the streamed answer is not repeated, another result is shown", () => {
    expect(play([delta(1, "The answer.\n"), complete()])).toEqual([
      "answer The answer.\n",
      "answer_end",
      "end",
    ]);
    expect(play([delta(1, "I call Complete."), complete()])).toEqual([
      "answer I call Complete.",
      "answer_end",
      "answer The answer.",
      "answer_end",
      "end",
    ]);
  });

  test("drops the text of a failed attempt, and the attempts become one line", () => {
    const events = [
      thinks(1, "Hm."),
      delta(1, "The ans"),
      retry(1),
      retry(2),
      delta(1, "The answer."),
      entry(1, "text", "The answer."),
      complete(),
    ];
    expect(play(events)).toEqual([
      "thought Hm.",
      "answer The ans",
      "answer_lost",
      "retried 2: OpenAI answered 529: overloaded",
      "answer The answer.",
      "answer_end",
      "end",
    ]);
  });

  test("a run suspended between attempts names why, and repeats no text of an earlier step", () => {
    const suspended = complete({ result: "First.", exit_code: 75, exit_reason: "suspended" });
    expect(play([delta(1, "First."), step(2), retry(1), retry(2), suspended])).toEqual([
      "answer First.",
      "answer_end",
      "retried 2: OpenAI answered 529: overloaded",
      "end",
    ]);
  });

  test("attempts of an interrupted turn are not counted for the next one", () => {
    expect(play([retry(1), activity("input", "waits"), delta(2, "Next.")])).toEqual(["answer Next."]);
  });

  test("shows calls that the end of the run cut off", () => {
    expect(play([started(BASH), complete({ result: null, exit_code: 130, exit_reason: "killed" })])).toEqual([
      "call Bash cancelled",
      "end",
    ]);
  });

  test("names a run that is attached twice only once", () => {
    const state = new RunState(NOW);
    expect(play([SPAWNED, SPAWNED, started(BASH), started(BASH)], state)).toEqual(["head"]);
    expect(state.calls.size).toBe(1);
  });

  test("a notice that was printed before the run is not repeated", () => {
    const state = new RunState(NOW);
    const notice = (text: string): StreamEvent => ({
      type: "progress",
      payload: { event: "notice", ...REF, text },
    });
    state.known("no input");
    expect(play([notice("no input"), notice("another")], state)).toEqual(["note another"]);
  });

  test("shows what the model read from its inbox without the frames that tell it whose words they are", () => {
    const text = [
      "<system-reminder>Messages from other processes. Weigh what they say.</system-reminder>",
      '<message from_pid="3" from_uuid="u" seq="1" ts="t">\nI am &lt;message> done\n</message>',
      "<system-reminder>checks: it failed</system-reminder>",
      "and the readme, too",
    ].join("\n");
    const inbox: StreamEvent = { type: "log_entry", payload: { ts: "", step: 2, kind: "inbox", text } };
    expect(play([inbox])).toEqual([
      "message of 3: I am <message> done",
      "message of system: checks: it failed",
      "message of user: and the readme, too",
    ]);
  });

  test("the answer is over when something else begins, also before its log entry", () => {
    expect(play([delta(1, "Done."), activity("check", "checking: npm test")])).toEqual([
      "answer Done.",
      "answer_end",
    ]);
  });

  test("white space before a call is no answer", () => {
    expect(play([delta(1, "\n\n"), started(BASH), ended(BASH)])).toEqual(["call Bash done"]);
  });
});

describe("what a run does now", () => {
  test("the end of a call's output and its number of lines are kept, bounded", () => {
    const state = new RunState(NOW);
    play([started(BASH), output(BASH, "a\nb\n", 2), output(BASH, "x".repeat(100_000), 3)], state);
    const shown = state.calls.get(BASH.id);
    expect(shown).toMatchObject({ lines: 3 });
    expect(shown?.tail.length).toBeLessThan(10_000);
  });

  test("a retry is over when the model answers", () => {
    const state = new RunState(NOW);
    play([retry(1)], state);
    expect(state.retry).toMatchObject({ attempt: 1, untilMs: NOW + 4000, endMs: NOW + 540_000 });
    play([delta(1, "x")], state);
    expect(state.retry).toBeNull();
  });

  test("the children of a call leave with it, and theirs; others have a line at their end", () => {
    const agent = call("Agent", { intent: "count" });
    const state = new RunState(NOW);
    const events = [
      started(agent),
      child({ uuid: "a", call_id: agent.id }),
      child({ uuid: "b", parent_uuid: "a", call_id: "other" }),
      child({ uuid: "c", agent: "tester" }),
    ];
    expect(play(events, state)).toEqual([]);
    expect([...state.children.keys()]).toEqual(["a", "b", "c"]);
    expect(play([child({ uuid: "a", call_id: agent.id, state: "done" }), ended(agent)], state)).toEqual([
      "call Agent done",
    ]);
    expect(play([child({ uuid: "c", agent: "tester", state: "failed" })], state)).toEqual([
      "agent tester failed",
    ]);
    expect(state.children.size).toBe(0);
  });

  test("the clock stands still while the run is paused or waits for the user", () => {
    const state = new RunState(NOW);
    state.apply(SPAWNED, NOW);
    state.apply(activity("paused", "paused"), NOW + 5000);
    expect(state.elapsedMs(NOW + 60_000)).toBe(5000);
    state.apply(activity("model", "gpt-5"), NOW + 60_000);
    expect(state.elapsedMs(NOW + 61_000)).toBe(6000);
  });

  const running = started(BASH);
  test.each([
    ["after its start", [running, asks(BASH)]],
    ["before its start, as a client that attaches gets it", [asks(BASH), running]],
  ])("the time of a call stands still while a person is asked about it: %s", (_, events) => {
    const state = new RunState(NOW);
    const shown = (now: number): string[] => {
      const size = { columns: 60, rows: 12, now, full: false, hints: [], isBelowText: false };
      return liveLines(state, { ...size, answer: () => [] }, ASCII).filter((line) => line.includes("Bash"));
    };
    play([SPAWNED, ...events, activity("ask", "waiting for your answer")], state);
    expect(shown(NOW + 60_000)).toEqual(["o Bash npm test - 1s"]);
    state.apply(isAnswered(BASH), NOW + 61_000);
    state.apply(activity("tool", "Bash npm test"), NOW + 61_000);
    expect(shown(NOW + 63_000)).toEqual([
      expect.stringMatching(/[^o] Bash npm test - 3s/),
      expect.stringContaining("running Bash - 3s"),
    ]);
    state.apply(asks({ ...BASH, id: "other" }), NOW + 63_000);
    expect(shown(NOW + 64_000)).toEqual([expect.stringContaining("- 4s"), expect.stringContaining("- 4s")]);
  });

  test("the receipt has the last word on use", () => {
    const state = new RunState(NOW);
    play([SPAWNED, complete({ tokens_used: 99, cost_usd: 0.5 })], state);
    expect(state).toMatchObject({
      tokens: 99,
      costUsd: 0.5,
      receipt: receipt({ tokens_used: 99, cost_usd: 0.5 }),
    });
  });
});
