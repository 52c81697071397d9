/** A conversation as one text, for programs without sessions. */

import type { LLMMessage, LLMRequest } from "rnix/plugin";

const HEAD =
  "This conversation has gone on before. Here is what was said and done so far, oldest first, one JSON object a line; results of tools have the role `tool`.";
const TAIL = "That was the conversation so far. Go on from there.";

/**
 * The prompt for a program without sessions: the whole conversation as one text. A single message is the prompt
 * itself.
 */
export function promptOf({ intent, messages }: LLMRequest): string {
  const last = messages.at(-1);
  if (!last) return intent;
  if (messages.length === 1) return last.content;
  const asked = last.role === "user" ? last : undefined;
  const earlier = asked ? messages.slice(0, -1) : messages;
  return [HEAD, ...earlier.map(line), asked ? `${TAIL}\n\n${asked.content}` : TAIL].join("\n");
}

/** One earlier message as JSON, so that its text stays in one line. */
function line({ role, content, tool_call_id, tool_calls, images }: LLMMessage): string {
  return JSON.stringify({ role, content, tool_call_id, tool_calls, images: images?.length });
}
