import { expect, test } from "bun:test";
import { tokenTargets } from "../../../src/kernel/conversation/compactor.ts";

const LIMITS = { context_window: 128_000, compact_at: 80 };
const PRICE = { input: 1, output: 1, cached: 1 };

test.each([
  ["an unknown window", {}, 102_400],
  ["a known window", { contextWindow: 1_000_000 }, 800_000],
  ["the longest answer beside it", { contextWindow: 200_000, outputLimit: 64_000 }, 136_000],
  [
    "the user's limit of an answer",
    { contextWindow: 200_000, outputLimit: 64_000, maxOutput: 8000 },
    160_000,
  ],
  [
    "a higher price of long requests",
    {
      contextWindow: 1_000_000,
      outputLimit: 128_000,
      price: { ...PRICE, long: { ...PRICE, above: 100_000 } },
    },
    80_000,
  ],
  [
    "a higher price beyond the window",
    { contextWindow: 100_000, price: { ...PRICE, long: { ...PRICE, above: 200_000 } } },
    80_000,
  ],
])("a conversation is compacted before %s", (_, provider, trigger) => {
  expect(tokenTargets(provider, LIMITS, Infinity).trigger).toBe(trigger);
});
