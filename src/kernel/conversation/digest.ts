import type { Message } from "../../plugin/index.ts";
import { estimateTokens } from "../budget/token-estimate.ts";
import { clipText, shortenText } from "./clip-text.ts";
import { callsByResult } from "./turns.ts";

const WORDS = 240;
const CALL = 160;
const RESULT = 120;
/** What was summarised before gets at most this share. */
const EARLIER = 0.5;

/**
 * What happened in a conversation, in at most so many tokens and without a model: who said what, what was called and
 * how it went, the newest in any case. The first message is told elsewhere.
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
    return [`- ${role === "assistant" ? "you said" : "you were told"}: ${shortenText(content, WORDS)}`];
  });
}
