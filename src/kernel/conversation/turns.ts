import type { Message, ToolCall } from "../../plugin/index.ts";
import { estimateMessage } from "../budget/token-estimate.ts";

/**
 * Places where a conversation can be cut in two: an answer and the results of its calls are never parted, or a
 * provider refuses what is left.
 */
function turnStarts(messages: readonly Message[]): number[] {
  return messages.flatMap(({ role }, at) => (role === "tool" ? [] : [at]));
}

/** Where the last so many answers begin, each with what came of it; 0 when there are not so many. */
export function lastAnswers(messages: readonly Message[], count: number): number {
  const answers = messages.flatMap(({ role }, at) => (role === "assistant" ? [at] : []));
  return answers.at(-count) ?? 0;
}

/** The longest end of the conversation that is at most so many tokens; its last turn always. Never the first message. */
export function tailStart(messages: readonly Message[], tokens: number): number {
  const starts = turnStarts(messages).filter((at) => at > 0);
  let kept = 0;
  let start = messages.length;
  for (const at of starts.reverse()) {
    for (const message of messages.slice(at, start)) kept += estimateMessage(message);
    if (kept > tokens && start < messages.length) break;
    start = at;
  }
  return start;
}

/** The call that each result answers, by the result's place. Ids may come again in another turn. */
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
