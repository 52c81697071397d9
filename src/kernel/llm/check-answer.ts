/** Checks that an answer of a model is complete. */

import { type LLMAnswer, SyscallError, type ToolCall } from "../../plugin/index.ts";

/** Characters of a provider's stop word that are shown. */
const MAX_STOP_WORD_CHARS = 80;

/** Drops the tool calls of an answer that was refused or ended irregularly, and truncates the provider's stop word. */
export function normalized({ stop_word, opaque, ...answer }: LLMAnswer): LLMAnswer {
  const { stop_reason, tool_calls } = answer;
  const stopped = stop_reason === "refusal" || stop_reason === "other";
  const pauses = stop_reason === "paused" && tool_calls.length === 0;
  return {
    ...answer,
    ...(stopped && { tool_calls: [] }),
    ...(stop_reason === "paused" && !pauses && { stop_reason: "tool_calls" }),
    ...(pauses && opaque !== undefined && { opaque }),
    ...(stop_word !== undefined && { stop_word: stop_word.slice(0, MAX_STOP_WORD_CHARS) }),
  };
}

/** Fails if the answer broke off or is empty: no part of such an answer is acted on. */
export function requireContent(answer: LLMAnswer): void {
  const { stop_reason: reason, stop_word: word, opaque } = answer;
  if (reason === "unknown") throw brokenOff(word);
  const silent = answer.content.trim() === "" && opaque === undefined;
  if (answer.tool_calls.length > 0 || (!silent && reason !== "tool_calls")) return;
  const named = word === undefined ? "" : ` (${JSON.stringify(word)})`;
  if (reason === "refusal")
    throw unusable(`refused to answer and gave no reason${named}. Change the request, or use another model`);
  if (reason === "max_tokens") throw unusable(`used its whole output limit without an answer${named}`);
  const got = silent ? "an empty answer" : "an answer that announces tool calls and has none";
  const why =
    reason === "other" ? `, which it ended with ${JSON.stringify(word)}` : "; expected text or tool calls";
  throw unusable(`gave ${got}${why}`, { retryable: true });
}

function unusable(what: string, { retryable = false } = {}): SyscallError {
  return new SyscallError("DRIVER", `the model ${what}`, { retryable });
}

export function brokenOff(word?: string): SyscallError {
  const named = word ? ` (${JSON.stringify(word)})` : "";
  const message = `the model's answer broke off before its end${named}`;
  return new SyscallError("UNAVAILABLE", message, { retryable: true });
}

/** Gives each call a unique id. With duplicate or empty ids the results would be mixed up or refused. */
export function withUniqueIds(calls: ToolCall[]): ToolCall[] {
  const taken = new Set<string>();
  return calls.map((call, index) => {
    const id = call.id === "" || taken.has(call.id) ? `${call.id || "call"}-${index + 1}` : call.id;
    taken.add(id);
    return id === call.id ? call : { ...call, id };
  });
}
