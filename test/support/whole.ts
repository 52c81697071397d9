import { expect } from "bun:test";
import type { LLMMessage } from "../../src/plugin/index.ts";

/** As a strict provider wants it: each call is answered at once, in order, and nothing else is. */
export function requireWhole(
  messages: readonly Pick<LLMMessage, "role" | "tool_call_id" | "tool_calls">[],
): void {
  const open: string[] = [];
  for (const { role, tool_call_id, tool_calls } of messages) {
    if (role === "tool") expect(tool_call_id).toBe(open.shift() ?? "none");
    else expect(open).toEqual([]);
    open.push(...(tool_calls ?? []).map(({ id }) => id));
  }
  expect(open).toEqual([]);
}
