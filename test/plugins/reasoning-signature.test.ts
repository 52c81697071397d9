import { describe, expect, test } from "bun:test";
import { ReasoningSignatures, signaturesOf } from "../../plugins/_model/prompt.ts";

const BY = "anthropic claude";
const call = (id: string) => ({ id, name: "Bash", input: { command: id } });

describe("the signatures of a call", () => {
  test("are the signed thoughts with the first call, and each call's own signature", () => {
    const thoughts = new ReasoningSignatures(BY);
    thoughts.addDelta("0", "", { anthropic: { signature: null } });
    thoughts.addDelta("0", "I look ", undefined);
    thoughts.addDelta("1", "unsigned", undefined);
    thoughts.addDelta("0", "first", undefined);
    thoughts.addDelta("0", "", { anthropic: { signature: "s0" } });
    thoughts.addDelta("2", "", { anthropic: { redactedData: "r" } });
    thoughts.call("b", { google: { thoughtSignature: "sb" } });
    const [a, b, c] = thoughts.signed([call("a"), call("b"), call("c")]);
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
    const thoughts = new ReasoningSignatures(BY);
    thoughts.addDelta("0", "just words", undefined);
    thoughts.add("and more", undefined);
    expect(thoughts.signed([call("a")])).toEqual([call("a")]);
    expect(thoughts.signed([])).toEqual([]);
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
