/** Estimates the tokens of a request. */

import type { ImageRef, LLMRequest, LLMTool, Message } from "../../plugin/index.ts";

/** The input of a model request. Images count by their size, so references are enough. */
export interface RequestInput extends Pick<LLMRequest, "model" | "system_prompt" | "tools"> {
  messages: readonly Message[];
}

/**
 * Estimates the tokens of one run's requests without a tokenizer, corrected by the usage that the provider reports
 * (`learn`). Used for budgets and compaction, never for bills.
 */
export class TokenEstimate {
  /** The ratio of reported to estimated tokens in the last answer, by model. */
  readonly #ratios = new Map<string, number>();

  of(request: RequestInput): number {
    return Math.ceil(estimateRequest(request) * this.ratio(request.model));
  }

  /** Tokens of this model for each estimated token. */
  ratio(model: string): number {
    return this.#ratios.get(model) ?? 1;
  }

  /** Corrects the estimate by the tokens that the provider reported. A ratio that no tokenizer has is limited. */
  learn(request: RequestInput, reported: number): void {
    if (reported <= 0) return;
    const ratio = reported / estimateRequest(request);
    this.#ratios.set(request.model, Math.min(MAX_RATIO, Math.max(MIN_RATIO, ratio)));
  }
}

/** English prose and code are near 1, scripts that a tokenizer hardly knows up to 3, long runs of spaces below 1. */
const MIN_RATIO = 0.5;
const MAX_RATIO = 4;

/**
 * Estimates the tokens of a text. English and code have about four UTF-8 bytes a token. Bytes are counted instead of
 * characters, or the estimate would be too low for other scripts.
 */
export function estimateTokens(text: string): number {
  return Math.ceil(Buffer.byteLength(text, "utf8") / BYTES_PER_TOKEN);
}

/** Estimates the input tokens of a request, including the overhead of each message and tool. */
export function estimateRequest({ system_prompt, messages, tools }: Omit<RequestInput, "model">): number {
  let conversation = 0;
  for (const message of messages) conversation += estimates.get(message) ?? estimateMessage(message);
  return estimateTokens(system_prompt) + conversation + (tools === undefined ? 0 : estimateTools(tools));
}

/** Estimates by message or tool list: they never change, and are needed at every step. */
const estimates = new WeakMap<object, number>();

export function estimateMessage(message: Message): number {
  return estimates.getOrInsertComputed(message, () => {
    const { content, tool_calls, images = [] } = message;
    const calls = tool_calls === undefined ? 0 : estimateTokens(JSON.stringify(tool_calls));
    const shown = images.reduce((sum, image) => sum + estimateImage(image), 0);
    return MESSAGE_OVERHEAD + estimateTokens(content) + calls + shown;
  });
}

function estimateTools(tools: readonly LLMTool[]): number {
  return estimates.getOrInsertComputed(tools, () => estimateTokens(JSON.stringify(tools)));
}

/** Anthropic's formula; OpenAI and Google count fewer. Larger images are scaled down by the provider. */
function estimateImage({ width, height }: ImageRef): number {
  return Math.min(MAX_IMAGE, Math.max(MIN_IMAGE, Math.ceil((width * height) / PIXELS_PER_TOKEN)));
}

const BYTES_PER_TOKEN = 4;
const MESSAGE_OVERHEAD = 4;
const PIXELS_PER_TOKEN = 750;
const MIN_IMAGE = 85;
const MAX_IMAGE = 1600;
