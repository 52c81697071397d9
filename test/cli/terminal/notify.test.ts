import { describe, expect, test } from "bun:test";
import { attentionSequence } from "../../../src/cli/terminal/notify.ts";

const long = { text: "rnix: done: fix the test", waitedMs: 31_000 };
const NEVER = { bell: 0, desktop_notice: 0 };
const AFTER_30S = { bell: 30_000, desktop_notice: 30_000 };

describe("the bell and the notification", () => {
  test("are not used unless a setting asks for them", () => {
    expect(attentionSequence(long, NEVER, {})).toBe("");
  });

  test("come after the time of the setting only", () => {
    expect(attentionSequence({ ...long, waitedMs: 29_999 }, AFTER_30S, {})).toBe("");
    expect(attentionSequence(long, { ...NEVER, bell: 30_000 }, {})).toBe("\x07");
  });

  test("send OSC 9, or OSC 777 to a terminal that is known to take it", () => {
    const notices = { ...NEVER, desktop_notice: 1 };
    expect(attentionSequence(long, notices, {})).toBe("\x1b]9;rnix: done: fix the test\x07");
    const vte = { VTE_VERSION: "7600" };
    expect(attentionSequence(long, notices, vte)).toBe("\x1b]777;notify;rnix;rnix: done: fix the test\x07");
  });

  test("go through tmux in its wrapping, with every escape doubled", () => {
    const sequence = attentionSequence(long, { ...NEVER, desktop_notice: 1 }, { TMUX: "/tmp/tmux,1,0" });
    expect(sequence).toBe("\x1bPtmux;\x1b\x1b]9;rnix: done: fix the test\x07\x1b\\");
  });

  test("carry no control characters of an intent", () => {
    const text = "done: \x1b]0;evil\x07 a;b\u202e\nc";
    const sequence = attentionSequence({ ...long, text }, { ...NEVER, desktop_notice: 1 }, {});
    expect(sequence.slice(4, -1)).not.toMatch(/[\p{Cc}\p{Bidi_Control};]/u);
  });
});
