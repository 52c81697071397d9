import { describe, expect, test } from "bun:test";
import { AnswerBuilder, signaturesOf } from "../../plugins/_model/answer-parts.ts";

const BY = "anthropic claude";
const call = (id: string) => ({ id, name: "Bash", input: { command: id } });

const DONE = { reason: "tool_calls" } as const;

describe("the signatures of a call", () => {
  test("are the signed thoughts with the first call, and each call's own signature", () => {
    const answer = new AnswerBuilder(BY);
    const think = (id: string, delta: string, meta?: Record<string, Record<string, string | null>>): void =>
      answer.addDelta({ type: "reasoning-delta", id, delta, ...(meta && { providerMetadata: meta }) });
    think("0", "", { anthropic: { signature: null } });
    think("0", "I look ");
    think("1", "unsigned");
    think("0", "first");
    answer.addDelta({ type: "reasoning-end", id: "0", providerMetadata: { anthropic: { signature: "s0" } } });
    think("2", "", { anthropic: { redactedData: "r" } });
    answer.add(toolCall("a"));
    answer.add({ ...toolCall("b"), providerMetadata: { google: { thoughtSignature: "sb" } } });
    answer.add(toolCall("c"));
    const [a, b, c] = answer.finish(DONE);
    expect(a && signaturesOf(a, BY)).toEqual({
      by: BY,
      thoughts: [
        { text: "I look first", meta: { anthropic: { signature: "s0" } } },
        { text: "", meta: { anthropic: { redactedData: "r" } } },
      ],
    });
    expect(b && signaturesOf(b, BY)).toEqual({ by: BY, meta: { google: { thoughtSignature: "sb" } } });
    expect(c).toEqual(call("c"));
  });

  test("are absent without a signed thought or call", () => {
    const answer = new AnswerBuilder(BY);
    expect(answer.finish(DONE)).toEqual([]);
    answer.addDelta({ type: "reasoning-delta", id: "0", delta: "just words" });
    answer.add({ type: "reasoning", text: "and more" });
    answer.add(toolCall("a"));
    expect(answer.finish(DONE)).toEqual([call("a")]);
  });

  test.each([
    "",
    "not json",
    "null",
    "[]",
    '{"by":1}',
    '{"by":"another model","meta":{}}',
    `{"by":"${BY}","thoughts":[{"text":1}]}`,
    `{"by":"${BY}","meta":"x"}`,
  ])("are ignored when they are not from this model: %p", (opaque) => {
    expect(signaturesOf({ ...call("a"), opaque }, BY)).toBeUndefined();
  });
});

function toolCall(id: string) {
  const input = JSON.stringify({ command: id });
  return { type: "tool-call" as const, toolCallId: id, toolName: "Bash", input };
}
