/** Maps the providers' words for the end of an answer to stop reasons. */

import type { StopReason } from "rnix/plugin";

/**
 * The words by which providers of all protocols end an answer. An unknown word is `other`, and the answer before it is
 * partial.
 */
const WORDS: readonly (readonly [StopReason, readonly string[]])[] = [
  // eos: Together. eos_token: Text Generation Inference. STOP: Gemini.
  ["end_turn", ["stop", "end_turn", "stop_sequence", "STOP", "eos", "eos_token"]],
  ["tool_calls", ["tool_calls", "tool_use", "function_call"]],
  [
    "max_tokens",
    [
      "length",
      "max_tokens",
      "max_output_tokens",
      "MAX_TOKENS",
      // The conversation fills the window: Mistral, Anthropic.
      "model_length",
      "model_context_window_exceeded",
    ],
  ],
  [
    "refusal",
    [
      "refusal",
      "content_filter",
      "content-filter",
      // Zhipu.
      "sensitive",
      // Gemini.
      "SAFETY",
      "RECITATION",
      "BLOCKLIST",
      "PROHIBITED_CONTENT",
      "SPII",
      "MODEL_ARMOR",
      "IMAGE_SAFETY",
      "IMAGE_PROHIBITED_CONTENT",
      "IMAGE_RECITATION",
    ],
  ],
  ["paused", ["pause_turn"]],
  // The provider's own failure, which may be temporary: the request is retried.
  [
    "unknown",
    [
      "",
      "error",
      "abort",
      "aborted",
      "cancelled",
      "failed",
      "timeout",
      "network_error",
      "insufficient_system_resource",
      "FINISH_REASON_UNSPECIFIED",
      "OTHER",
      "MALFORMED_FUNCTION_CALL",
      "MALFORMED_RESPONSE",
      "UNEXPECTED_TOOL_CALL",
      "TOO_MANY_TOOL_CALLS",
      "MISSING_THOUGHT_SIGNATURE",
    ],
  ],
];

const REASONS = new Map(WORDS.flatMap(([reason, words]) => words.map((word) => [word, reason] as const)));

export interface Stop {
  reason: StopReason;
  /** The provider's word, for any end but a regular one. */
  word?: string;
}

/** The stop reason for the provider's word. `unknown`: the answer broke off. */
export function stopOf(word: string, hasCalls: boolean): Stop {
  const reason = REASONS.get(word) ?? "other";
  // A turn that pauses for our calls continues with their results.
  if (hasCalls && (reason === "end_turn" || reason === "paused")) return { reason: "tool_calls" };
  return reason === "end_turn" || reason === "tool_calls" ? { reason } : { reason, word };
}

/** Whether the word is a known one for an answer that is not whole. */
export function isCut(word: string): boolean {
  const reason = REASONS.get(word);
  return reason === "max_tokens" || reason === "refusal";
}
