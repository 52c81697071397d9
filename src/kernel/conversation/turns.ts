/** Finds turns and tool calls in a list of messages. */

import type { Message, ToolCall } from "../../plugin/index.ts";
import { estimateMessage } from "../budget/tokens.ts";

/** The position of the `count`-th last answer; 0 if there are fewer. */
export function lastAnswers(messages: readonly Message[], count: number): number {
  const answers = messages.flatMap(({ role }, at) => (role === "assistant" ? [at] : []));
  return answers.at(-count) ?? 0;
}

/** The start of the longest tail of at most `tokens` tokens: at least the last turn, never the first message. */
export function tailStart(messages: readonly Message[], tokens: number): number {
  // A conversation can't be split elsewhere: providers reject an answer without the results of its calls.
  const starts = messages.flatMap(({ role }, at) => (role === "tool" || at === 0 ? [] : [at]));
  let kept = 0;
  let start = messages.length;
  for (const at of starts.reverse()) {
    for (const message of messages.slice(at, start)) kept += estimateMessage(message);
    if (kept > tokens && start < messages.length) break;
    start = at;
  }
  return start;
}

/** The call of each result, by the result's position. Another turn may use the same ids. */
export function callsByResult(messages: readonly Message[]): ReadonlyMap<number, ToolCall> {
  const found = new Map<number, ToolCall>();
  let open: readonly ToolCall[] = [];
  for (const [at, { role, tool_calls = [], tool_call_id }] of messages.entries()) {
    if (role === "assistant") open = tool_calls;
    const call = role === "tool" ? open.find(({ id }) => id === tool_call_id) : undefined;
    if (call) found.set(at, call);
  }
  return found;
}
