import type { ModelRequest } from "./request.ts";

/**
 * A guess at how many tokens a text will be, made without the model's tokenizer. English and code come to
 * about four UTF-8 bytes a token; counting bytes and not characters keeps it from falling short on other
 * scripts. For budgets and for when to compact, never for bills.
 */
export function estimateTokens(text: string): number {
  return Math.ceil(Buffer.byteLength(text, "utf8") / BYTES_PER_TOKEN);
}

/** The input of a whole request: what every message and tool adds beyond its own text is counted too. */
export function estimateRequest(request: Pick<ModelRequest, "system_prompt" | "messages" | "tools">): number {
  let tokens = estimateTokens(request.system_prompt);
  for (const message of request.messages) {
    tokens += MESSAGE_OVERHEAD + estimateTokens(message.content);
    if (message.tool_calls !== undefined) tokens += estimateTokens(JSON.stringify(message.tool_calls));
  }
  if (request.tools !== undefined) tokens += estimateTokens(JSON.stringify(request.tools));
  return tokens;
}

const BYTES_PER_TOKEN = 4;
const MESSAGE_OVERHEAD = 4;
