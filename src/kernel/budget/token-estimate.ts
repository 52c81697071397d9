import type { ImageRef, LLMTool, Message } from "../../plugin/index.ts";
import type { ModelRequest } from "../llm/model-request.ts";

/** What of a request counts as input. */
type Input = Pick<ModelRequest, "model" | "system_prompt" | "messages" | "tools">;

/**
 * How many tokens the requests of one run are, made without a tokenizer: a guess, set right by what the model's
 * provider reports of each (`learn`). For budgets and for when to compact, never for bills.
 */
export class TokenEstimate {
  /** Reported to guessed, of the last answer. By model: a run may change it. */
  readonly #ratios = new Map<string, number>();

  of(request: Input): number {
    return Math.ceil(estimateRequest(request) * this.ratio(request.model));
  }

  /** How many of its tokens the model makes of one that is guessed. */
  ratio(model: string): number {
    return this.#ratios.get(model) ?? 1;
  }

  /** Sets it right: the provider says that this request was so many tokens. What no tokenizer makes is not believed. */
  learn(request: Input, reported: number): void {
    if (reported <= 0) return;
    const ratio = reported / estimateRequest(request);
    this.#ratios.set(request.model, Math.min(MOST, Math.max(LEAST, ratio)));
  }
}

/** English prose and code are near 1, scripts that a tokenizer hardly knows up to 3, long runs of spaces below 1. */
const LEAST = 0.5;
const MOST = 4;

/**
 * A guess at how many tokens a text will be. English and code come to about four UTF-8 bytes a token; counting
 * bytes and not characters keeps it from falling short on other scripts.
 */
export function estimateTokens(text: string): number {
  return Math.ceil(Buffer.byteLength(text, "utf8") / BYTES_PER_TOKEN);
}

/** The input of a whole request: what every message and tool adds beyond its own text is counted too. */
export function estimateRequest({ system_prompt, messages, tools }: Omit<Input, "model">): number {
  const told = messages.reduce((sum, message) => sum + estimateMessage(message), 0);
  return estimateTokens(system_prompt) + told + (tools === undefined ? 0 : estimateTools(tools));
}

/** Messages and lists of tools do not change, and are counted at every step: once is enough. */
const known = new WeakMap<object, number>();

export function estimateMessage(message: Message): number {
  return once(message, () => {
    const { content, tool_calls, images = [] } = message;
    const calls = tool_calls === undefined ? 0 : estimateTokens(JSON.stringify(tool_calls));
    const shown = images.reduce((sum, image) => sum + estimateImage(image), 0);
    return MESSAGE_OVERHEAD + estimateTokens(content) + calls + shown;
  });
}

function estimateTools(tools: readonly LLMTool[]): number {
  return once(tools, () => estimateTokens(JSON.stringify(tools)));
}

function once(of: object, count: () => number): number {
  const before = known.get(of);
  if (before !== undefined) return before;
  const tokens = count();
  known.set(of, tokens);
  return tokens;
}

/** By its size, as Anthropic counts; OpenAI and Google come to less. What is larger is scaled down first. */
function estimateImage({ width, height }: ImageRef): number {
  return Math.min(LARGEST_IMAGE, Math.max(SMALLEST_IMAGE, Math.ceil((width * height) / PIXELS_PER_TOKEN)));
}

const BYTES_PER_TOKEN = 4;
const MESSAGE_OVERHEAD = 4;
const PIXELS_PER_TOKEN = 750;
const SMALLEST_IMAGE = 85;
const LARGEST_IMAGE = 1600;
