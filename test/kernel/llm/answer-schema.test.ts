import { expect, test } from "bun:test";
import { answerOf, eventOf } from "../../../src/kernel/llm/answer-reader.ts";

const usage = (counts: object) => {
  const event = eventOf(JSON.stringify({ type: "usage", usage: counts }));
  return event.type === "usage" ? event.usage : expect.unreachable();
};

test.each([
  ["a part was read from the cache", 100, 40, 100, 40],
  ["all of it was read from the cache", 100, 100, 100, 100],
  ["the provider counts what it has read from the cache apart", 10, 40, 50, 40],
  ["a count is negative", -5, -1, 0, 0],
  ["a count is no integer", 10.6, 0.2, 11, 0],
])("the input of an answer, where %s", (_, input_tokens, cached_tokens, input, cached) => {
  expect(usage({ input_tokens, cached_tokens, output_tokens: 7 })).toEqual({
    input_tokens: input,
    output_tokens: 7,
    cached_tokens: cached,
  });
});

test("no cost and no cache refunds a budget", () => {
  const counts = { input_tokens: 10, output_tokens: 1, cached_tokens: 4 };
  expect(usage({ ...counts, cost_usd: -1 })).not.toHaveProperty("cost_usd");
  expect(usage({ ...counts, cost_usd: 0.5, cache_write_tokens: 99 })).toEqual({
    ...counts,
    cost_usd: 0.5,
    cache_write_tokens: 6,
  });
});

test("the tokens of an answer without a usage count as output", () => {
  const { usage } = answerOf(JSON.stringify({ content: "so", tokens_used: 12 }));
  expect(usage).toEqual({ input_tokens: 0, output_tokens: 12, cached_tokens: 0 });
});
