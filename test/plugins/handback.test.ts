import { describe, expect, test } from "bun:test";
import { ReasoningSignatures, signaturesOf } from "../../plugins/_model/reasoning-signature.ts";

const BY = "anthropic claude";
const call = (id: string) => ({ id, name: "Bash", input: { command: id } });

describe("what goes back with a call", () => {
  test("are the signed thoughts with the first one, put together from their pieces, and each call's own signature", () => {
    const thoughts = new ReasoningSignatures(BY);
    thoughts.piece("0", "", { anthropic: { signature: null } });
    thoughts.piece("0", "I look ", undefined);
    thoughts.piece("1", "unsigned", undefined);
    thoughts.piece("0", "first", undefined);
    thoughts.piece("0", "", { anthropic: { signature: "s0" } });
    thoughts.piece("2", "", { anthropic: { redactedData: "r" } });
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

  test("is nothing where nobody signed anything", () => {
    const thoughts = new ReasoningSignatures(BY);
    thoughts.piece("0", "just words", undefined);
    thoughts.whole("and more", undefined);
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
  ])("is left out when it is not of this model's driver: %p", (opaque) => {
    expect(signaturesOf({ ...call("a"), opaque }, BY)).toBeUndefined();
  });
});
