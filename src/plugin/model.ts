/** Requests and answers of a model device, `/dev/llm/<provider>`. */

import type { Code } from "./errors.ts";

export interface ToolCall {
  id: string;
  name: string;
  input: Record<string, unknown>;
  /** Set when the model's arguments are not a JSON object: their text, and the reason. */
  invalid?: { text: string; reason: string };
  /**
   * Data that the driver gets back with the conversation, such as the provider's signature of the model's reasoning. Only
   * the driver reads it.
   */
  opaque?: string;
}

export interface Message {
  role: "system" | "user" | "assistant" | "tool";
  content: string;
  /** On `tool`: the call that this answers. */
  tool_call_id?: string;
  /** On `assistant`. */
  tool_calls?: ToolCall[];
  /** On `assistant`, when the model has paused: data that only the driver reads. */
  opaque?: string;
  /** On `user`: attached images, stored beside the run. A request contains the images themselves. */
  images?: ImageRef[];
}

export const IMAGE_TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"] as const;
export type ImageType = (typeof IMAGE_TYPES)[number];

/** The reference of a conversation to an image. */
export interface ImageRef {
  media_type: ImageType;
  /** Relative to the run's folder. */
  file: string;
  /** The hash of the content, in hex. */
  sha256: string;
  bytes: number;
  /** In pixels. */
  width: number;
  height: number;
}

/** An image in a request. */
export interface LLMImage {
  media_type: ImageType;
  /** Base64. */
  data: string;
}

/** A message in a request. */
export interface LLMMessage extends Omit<Message, "images"> {
  images?: LLMImage[];
}

export interface Usage {
  /** All input tokens, cached ones included. */
  input_tokens: number;
  output_tokens: number;
  cached_tokens: number;
  /** Of the input tokens, those that were written to the provider's cache, if the provider reports them. */
  cache_write_tokens?: number;
  /** The cost in USD, if the provider reports it. It counts before any configured price. */
  cost_usd?: number;
}

export interface LLMTool {
  name: string;
  description: string;
  input: object;
}

export const EFFORTS = ["minimal", "low", "medium", "high", "max"] as const;
/** How much the model should reason before it answers. Absent: the provider's default. */
export type Effort = (typeof EFFORTS)[number];

/** Written to the device as one JSON document. */
export interface LLMRequest {
  intent: string;
  system_prompt: string;
  model: string;
  max_turns?: number;
  timeout_ms?: number;
  /**
   * The number of earlier answers in the run, including those that compaction has removed from `messages`. null when the
   * answer is not a step, such as a summary.
   */
  turn?: number | null;
  messages: LLMMessage[];
  tools?: LLMTool[];
  max_output?: number;
  stream?: boolean;
  /** Only to a driver whose `stat` says `effort: true`. */
  effort?: Effort;
  /**
   * JSON Schema of the final answer. A driver enforces it if its provider can. The prompt asks for it too, and the kernel
   * checks the answer.
   */
  output_schema?: object;
  /** W3C Trace Context, for a header of the request. Set where telemetry is on. */
  traceparent?: string;
}

/**
 * Why the model stopped. `end_turn` and `tool_calls` are the only regular reasons. `paused`: the turn is not over, and
 * the model is called again with this message unchanged. `other`: a reason that the driver does not know, named in
 * `stop_word`; the answer is partial, and its calls are not run. `unknown`: the stream ended without a reason, so the
 * answer is truncated.
 */
export type StopReason =
  | "end_turn"
  | "tool_calls"
  | "max_tokens"
  | "refusal"
  | "paused"
  | "other"
  | "unknown";

/** One rate limit of a provider, from the headers of its answer. Unknown values are absent. */
export interface RateLimit {
  /** The maximum per window. */
  limit?: number;
  /** How many are left now. */
  remaining?: number;
  /** Ms from now until it is full again. */
  reset_ms?: number;
}

/** The rate limits that a provider reports for this key: of requests, and of tokens (input tokens if separate). */
export interface RateLimits {
  requests?: RateLimit;
  tokens?: RateLimit;
}

/** The answer to a request without `stream`. */
export interface LLMAnswer {
  content: string;
  reasoning?: string;
  tool_calls: ToolCall[];
  stop_reason: StopReason;
  /** The provider's own name of the reason, if it is not a regular one. */
  stop_word?: string;
  /** Set when the model has paused: see `Message`. */
  opaque?: string;
  usage: Usage;
  tokens_used: number;
  limits?: RateLimits;
}

/** The answer to a request with `stream`: one event per read. An empty read is the end. */
export type LLMEvent =
  | { type: "text_delta"; text: string }
  | { type: "reasoning_delta"; text: string }
  | { type: "tool_call"; call: ToolCall }
  /** From a driver that uses the service `tools`: its calls are answered, and a new model request begins. */
  | { type: "turn" }
  | { type: "usage"; usage: Usage }
  /** At most once per answer, before its first text. The kernel adapts the request rate of this key to it. */
  | { type: "limits"; limits: RateLimits }
  /** The last event. `word`, `opaque`: see `LLMAnswer`. */
  | { type: "stop"; reason: StopReason; word?: string; opaque?: string }
  | {
      type: "error";
      code: Code;
      message: string;
      retry_after_ms?: number;
      retryable?: boolean;
      too_long?: boolean;
    };
