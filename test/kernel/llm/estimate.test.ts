import { expect, test } from "bun:test";
import { estimateRequest, estimateTokens } from "../../../src/kernel/llm/estimate.ts";

test("about four bytes are a token, rounded up, and nothing is none", () => {
  expect(["", "a", "abcd", "abcde", "x".repeat(4000)].map(estimateTokens)).toEqual([0, 1, 1, 2, 1000]);
});

test("a script of more bytes a character is not underestimated", () => {
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
