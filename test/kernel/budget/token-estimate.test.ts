import { describe, expect, test } from "bun:test";
import { estimateRequest, estimateTokens, TokenEstimate } from "../../../src/kernel/budget/tokens.ts";
import type { ImageRef } from "../../../src/plugin/index.ts";

test("about four bytes are a token, rounded up, and an empty text has 0", () => {
  expect(["", "a", "abcd", "abcde", "x".repeat(4000)].map(estimateTokens)).toEqual([0, 1, 1, 2, 1000]);
});

test("a script with more bytes per character is not underestimated", () => {
  expect(estimateTokens("漢字")).toBe(2);
  expect(estimateTokens("привет")).toBe(3);
});

test("a request counts its prompt, messages, calls and tools", () => {
  const bare = { system_prompt: "", messages: [] };
  expect(estimateRequest(bare)).toBe(0);
  const base = {
    system_prompt: "x".repeat(400),
    messages: [{ role: "user" as const, content: "x".repeat(40) }],
  };
  expect(estimateRequest(base)).toBe(114);
  const tools = [{ name: "Read", description: "Reads a file", input: { type: "object" } }];
  expect(estimateRequest({ ...base, tools })).toBeGreaterThan(114);
  const call = { id: "c", name: "Read", input: { file_path: "a" } };
  const assistant = { role: "assistant" as const, content: "", tool_calls: [call] };
  expect(estimateRequest({ ...base, messages: [...base.messages, assistant] })).toBeGreaterThan(118);
});

test("an image counts by its size, within what models scale it to, and not by its bytes", () => {
  const image = (width: number, height: number): ImageRef => ({
    media_type: "image/png",
    file: "results/x.png",
    sha256: "x",
    bytes: 5_000_000,
    width,
    height,
  });
  const tokens = (...images: ImageRef[]): number =>
    estimateRequest({ system_prompt: "", messages: [{ role: "user", content: "", images }] });
  expect(tokens(image(750, 1000))).toBe(1004);
  expect(tokens(image(1, 1))).toBe(89);
  expect(tokens(image(8000, 8000))).toBe(1604);
  expect(tokens(image(750, 1000), image(750, 1000))).toBe(2004);
});

describe("the estimate of a run", () => {
  const request = (model: string, chars: number) => ({
    model,
    system_prompt: "x".repeat(chars),
    messages: [],
  });

  test("is a guess until the provider has reported a request's size, and follows that", () => {
    const estimate = new TokenEstimate();
    expect(estimate.of(request("m", 4000))).toBe(1000);
    estimate.learn(request("m", 4000), 1500);
    expect([4000, 8000].map((chars) => estimate.of(request("m", chars)))).toEqual([1500, 3000]);
    estimate.learn(request("m", 8000), 2200);
    expect(estimate.of(request("m", 4000))).toBe(1100);
  });

  test("is separate for each model, since a run may change it", () => {
    const estimate = new TokenEstimate();
    estimate.learn(request("one", 4000), 2000);
    expect([estimate.of(request("one", 400)), estimate.of(request("other", 400))]).toEqual([200, 100]);
  });

  test("ignores impossible counts, and a provider that reports none", () => {
    const estimate = new TokenEstimate();
    estimate.learn(request("m", 4000), 0);
    expect(estimate.of(request("m", 400))).toBe(100);
    estimate.learn(request("m", 4000), 3);
    expect(estimate.of(request("m", 400))).toBe(50);
    estimate.learn(request("m", 4000), 1_000_000);
    expect(estimate.of(request("m", 400))).toBe(400);
  });
});
