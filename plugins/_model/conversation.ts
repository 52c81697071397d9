import type { LLMMessage, LLMRequest } from "rnix/plugin";

const HEAD =
  "This conversation has gone on before. Here is what was said and done so far, oldest first, one JSON object a line; results of tools have the role `tool`.";
const TAIL = "That was the conversation so far. Go on from there.";

/**
 * What the program is told: it keeps no session, so all that was said and done comes as one text. One message alone
 * is that message.
 */
export function promptOf({ intent, messages }: LLMRequest): string {
  const last = messages.at(-1);
  if (!last) return intent;
  if (messages.length === 1) return last.content;
  const asked = last.role === "user" ? last : undefined;
  const told = asked ? messages.slice(0, -1) : messages;
  return [HEAD, ...told.map(line), asked ? `${TAIL}\n\n${asked.content}` : TAIL].join("\n");
}

/** One message of a told conversation: whatever its text holds, it stays one line. */
function line({ role, content, tool_call_id, tool_calls, images }: LLMMessage): string {
  return JSON.stringify({ role, content, tool_call_id, tool_calls, images: images?.length });
}
