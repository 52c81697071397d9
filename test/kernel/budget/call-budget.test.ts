import { describe, expect, test } from "bun:test";
import { type BudgetLimits, TreeBudget, UNLIMITED } from "../../../src/kernel/budget/budget.ts";
import { type CallBudget, reserveCall } from "../../../src/kernel/budget/call-budget.ts";
import { estimateRequest } from "../../../src/kernel/budget/tokens.ts";
import type { ModelRequest } from "../../../src/kernel/llm/model-device.ts";

const request: ModelRequest = {
  intent: "go",
  system_prompt: "x".repeat(400),
  model: "m",
  messages: [{ role: "user", content: "go" }],
};
const INPUT = estimateRequest(request);
const PRICE = { input: 1_000, output: 2_000, cached: 100 };
const never = new AbortController().signal;

function budget(limits: Partial<BudgetLimits>): TreeBudget {
  return new TreeBudget({ ...UNLIMITED, ...limits });
}

async function granted(
  from: TreeBudget,
  provider: Parameters<typeof reserveCall>[2],
  signal = never,
): Promise<CallBudget> {
  const call = await reserveCall(from, request, provider, signal);
  if ("reason" in call) throw call.error;
  return call;
}

test.each([
  ["no limit, a model whose longest answer is known", {}, { maxOutput: 500 }, 500, false],
  ["no limit, one whose longest is not: no limit is sent", {}, {}, undefined, false],
  ["tokens enough", { tokens: INPUT + 500 }, { maxOutput: 500 }, 500, false],
  ["tokens for a part", { tokens: INPUT + 499 }, { maxOutput: 500 }, 499, true],
  ["tokens enough, the longest not known", { tokens: 1_000_000 }, {}, 32_000, false],
  [
    "a cost for a part",
    { cost: (INPUT * 1_000 + 7 * 2_000) / 1e6 },
    { maxOutput: 500, price: PRICE },
    7,
    true,
  ],
  [
    "tokens enough, a model that can't write so much",
    { tokens: 1_000_000 },
    { outputLimit: 500 },
    500,
    false,
  ],
  ["tokens enough, one that can write more", { tokens: 1_000_000 }, { outputLimit: 64_000 }, 32_000, false],
  ["no limit, one that can't write so much: no limit is sent", {}, { outputLimit: 500 }, undefined, false],
  [
    "a cost for a part, the input written to the cache",
    { cost: (INPUT * 1_250 + 7 * 2_000) / 1e6 },
    { maxOutput: 500, price: { ...PRICE, cacheWrite: 1_250 } },
    7,
    true,
  ],
  [
    "a cost for a part of a long request",
    { cost: (INPUT * 3_000 + 7 * 4_000) / 1e6 },
    {
      maxOutput: 500,
      price: { ...PRICE, long: { above: INPUT - 1, input: 3_000, output: 4_000, cached: 0 } },
    },
    7,
    true,
  ],
  [
    "a model that costs nothing",
    { cost: 0.01 },
    { maxOutput: 5, price: { input: 0, output: 0, cached: 0 } },
    5,
    false,
  ],
])("the answer's room: %s", async (_, limits, provider, maxOutput, lowered) => {
  expect(await granted(budget(limits), provider)).toMatchObject({ maxOutput, lowered });
});

describe("a call that does not fit is not made", () => {
  test.each([
    ["steps", { steps: 0 }, {}, "max_steps", "--max-steps"],
    ["tokens", { tokens: INPUT }, {}, "budget_exceeded", "--budget"],
    ["cost", { cost: 0.000001 }, { price: PRICE, maxOutput: 5 }, "budget_exceeded", "--max-cost"],
  ])("%s", async (_, limits, provider, reason, flag) => {
    const from = budget(limits);
    const shortage = await reserveCall(from, request, provider, never);
    expect(shortage).toMatchObject({ reason, error: { code: "EXHAUSTED" } });
    expect("error" in shortage && shortage.error.message).toContain(flag);
    expect(from.reserved.reservations).toBe(0);
  });
});

test("a refused caller learns what was spent, of the limit that leaves least", async () => {
  const above = budget({ tokens: 1000 });
  const child = above.child({ ...UNLIMITED, tokens: 900 }, 0);
  const beside = above.child(UNLIMITED, 0);
  beside.reserve({ tokens: 0, cost: 0, steps: 0 }).settle({ tokens: 990, cost: null, steps: 1 });
  const shortage = await reserveCall(child, request, {}, never);
  expect("error" in shortage && shortage.error.message).toContain("990 of 1000 tokens are used");
});

test("a call pays for its usage, cached input at its price, and the step", async () => {
  const from = budget({ cost: 1, steps: 2 });
  const call = await granted(from, { maxOutput: 50, price: PRICE });
  expect(from.reserved).toMatchObject({ tokens: INPUT + 50, steps: 1, reservations: 1 });
  call.pay({ input_tokens: 100, output_tokens: 10, cached_tokens: 40 });
  expect([from.tokens, from.steps]).toEqual([110, 1]);
  expect(from.cost).toBeCloseTo((60 * 1_000 + 40 * 100 + 10 * 2_000) / 1e6);
  expect(from.reserved.reservations).toBe(0);
});

test.each([
  ["what was written to the cache at its price", { ...PRICE, cacheWrite: 1_250 }, 50 * 1_000 + 10 * 1_250],
  ["what was written to the cache as input, where it has no price", PRICE, 60 * 1_000],
  [
    "a long request at the prices of long ones",
    { ...PRICE, long: { above: 99, input: 2_000, cached: 200, cacheWrite: 2_500, output: 3_000 } },
    50 * 2_000 + 10 * 2_500 + 40 * 100 + 10 * 1_000,
  ],
  [
    "a request of just that length at the other prices",
    { ...PRICE, long: { above: 100, input: 2_000, cached: 200, output: 3_000 } },
    60 * 1_000,
  ],
])("it pays %s", async (_, price, inputCost) => {
  const from = budget({ cost: 10 });
  const call = await granted(from, { maxOutput: 50, price });
  call.pay({ input_tokens: 100, output_tokens: 10, cached_tokens: 40, cache_write_tokens: 10 });
  expect(from.cost).toBeCloseTo((inputCost + 40 * 100 + 10 * 2_000) / 1e6);
});

test("a call waits for what other calls have reserved, so no answer is truncated for it", async () => {
  const from = budget({ tokens: 2 * INPUT + 600 });
  const [a, b] = [from.child(UNLIMITED, 0), from.child(UNLIMITED, 0)];
  const first = await granted(a, { maxOutput: 500 });
  const second = granted(b, { maxOutput: 500 });
  first.pay({ input_tokens: INPUT, output_tokens: 20, cached_tokens: 0 });
  expect(await second).toMatchObject({ maxOutput: 500, lowered: false });
});

test("a caller that is stopped while it waits reserves nothing", async () => {
  const from = budget({ tokens: 2 * INPUT + 600 });
  const first = await granted(from, { maxOutput: 500 });
  const stop = new AbortController();
  const second = granted(from, { maxOutput: 500 }, stop.signal).catch((error: unknown) => error);
  stop.abort(new Error("stopped"));
  expect(await second).toMatchObject({ message: "stopped" });
  first.pay({ input_tokens: 0, output_tokens: 0, cached_tokens: 0 });
  expect(from.reserved.reservations).toBe(0);
});
