import { describe, expect, test } from "bun:test";
import { coalesced } from "../../plugins/_model/answer-parts.ts";
import type { LLMEvent } from "../../src/plugin/index.ts";
import { until } from "../support/until.ts";

type Text = Extract<LLMEvent, { text: string }>;

const word = (text: string): Text => ({ type: "text_delta", text });
const thought = (text: string): Text => ({ type: "reasoning_delta", text });
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** All events at once; `seen.given` counts those that were read. */
async function* burst(
  events: readonly LLMEvent[],
  seen = { given: 0, ended: false },
): AsyncGenerator<LLMEvent> {
  try {
    for (const event of events) {
      seen.given++;
      yield event;
    }
  } finally {
    seen.ended = true;
  }
}

async function all(events: AsyncIterable<LLMEvent>): Promise<LLMEvent[]> {
  const got: LLMEvent[] = [];
  for await (const event of events) got.push(event);
  return got;
}

function text(events: readonly LLMEvent[], type: Text["type"]): string {
  return events.map((event) => (event.type === type ? event.text : "")).join("");
}

describe("coalesced events", () => {
  test("hold the same text in fewer events, and all other events unchanged and in order", async () => {
    const usage = { input_tokens: 1, output_tokens: 2, cached_tokens: 0 };
    const words = Array.from({ length: 1000 }, (_, n) => word(`${n} `));
    const thoughts = Array.from({ length: 1000 }, (_, n) => thought(`${n} `));
    const call: LLMEvent = { type: "tool_call", call: { id: "1", name: "Read", input: {} } };
    const rest: LLMEvent[] = [{ type: "usage", usage }, call, { type: "stop", reason: "tool_calls" }];
    const events = [...thoughts, ...words, ...rest];
    const got = await all(coalesced(burst(events)));
    expect(text(got, "text_delta")).toBe(text(words, "text_delta"));
    expect(text(got, "reasoning_delta")).toBe(text(thoughts, "reasoning_delta"));
    expect(got.slice(-3)).toEqual(rest);
    expect(got.length).toBeLessThan(100);
    const kinds = got.map(({ type }) => type);
    expect(kinds.lastIndexOf("reasoning_delta")).toBeLessThan(kinds.indexOf("text_delta"));
    // The input events are not modified.
    expect(words[0]).toEqual(word("0 "));
  });

  test("stay apart when they arrive one by one, and the first does not wait", async () => {
    const given = Promise.withResolvers<void>();
    async function* slowly(): AsyncGenerator<LLMEvent> {
      yield word("a");
      await given.promise;
      for (const piece of ["b", "c"]) {
        for (let n = 0; n < 5; n++) await turn();
        yield word(piece);
      }
    }
    const events = coalesced(slowly());
    expect((await events.next()).value).toEqual(word("a"));
    given.resolve();
    expect(await all(events)).toEqual([word("b"), word("c")]);
  });

  test("come before the error that ends the stream", async () => {
    async function* broken(): AsyncGenerator<LLMEvent> {
      yield word("a");
      yield word("b");
      throw new Error("cut");
    }
    const got: LLMEvent[] = [];
    const read = async () => {
      for await (const event of coalesced(broken())) got.push(event);
    };
    await expect(read()).rejects.toThrow("cut");
    expect(text(got, "text_delta")).toBe("ab");
  });

  test("are buffered up to a limit, and the source is closed when the reader stops", async () => {
    const seen = { given: 0, ended: false };
    const calls = Array.from({ length: 10_000 }, (_, n): LLMEvent => {
      return { type: "tool_call", call: { id: `${n}`, name: "Read", input: {} } };
    });
    const events = coalesced(burst(calls, seen));
    await events.next();
    for (let n = 0; n < 20; n++) await turn();
    expect(seen.given).toBeLessThan(300);
    await events.return(undefined);
    await until(() => seen.ended, "the end of the stream");
    expect(seen.given).toBeLessThan(300);
  });

  test("have a largest size", async () => {
    const long = Array.from({ length: 100 }, () => word("x".repeat(4000)));
    const got = await all(coalesced(burst(long)));
    expect(text(got, "text_delta")).toHaveLength(400_000);
    expect(Math.max(...got.map((event) => ("text" in event ? event.text.length : 0)))).toBeLessThan(17_000);
  });
});
