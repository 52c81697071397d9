/** A summary of a conversation that no model writes. */

import type { Message } from "../../plugin/index.ts";
import { estimateTokens } from "../budget/tokens.ts";
import { clipText, shortenText } from "./clip-text.ts";
import { callsByResult } from "./turns.ts";

const WORDS = 240;
const CALL = 160;
const RESULT = 120;
/** The share that an earlier summary gets at most. */
const EARLIER = 0.5;

/**
 * Summarises a conversation without a model, in at most `tokens` tokens: the messages and calls with their results,
 * the newest first to be kept. The first message is not included.
 */
export function digest(messages: readonly Message[], earlier: string | null, tokens: number): string {
  const before = earlier === null ? "" : clipText(earlier, tokens * EARLIER);
  const lines = linesOf(messages);
  let left = tokens - estimateTokens(before);
  const kept: string[] = [];
  for (const line of lines.toReversed()) {
    left -= estimateTokens(line) + 1;
    if (left < 0) break;
    kept.unshift(line);
  }
  const missing = lines.length - kept.length;
  const gap = missing === 0 ? [] : [`[${missing} earlier entries are left out here.]`];
  return [...(before === "" ? [] : [before]), ...gap, ...kept].join("\n");
}

function linesOf(messages: readonly Message[]): string[] {
  const calls = callsByResult(messages);
  return messages.flatMap(({ role, content }, at) => {
    if (at === 0) return [];
    const call = calls.get(at);
    if (call) {
      return [
        `  - called ${call.name} ${shortenText(JSON.stringify(call.input), CALL)}: ${shortenText(content, RESULT)}`,
      ];
    }
    if (content.trim() === "") return [];
    return [`- ${role === "assistant" ? "you said" : "you received"}: ${shortenText(content, WORDS)}`];
  });
}
