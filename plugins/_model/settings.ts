/** Reads the settings of a provider's entry, and the provider's words for the end of an answer. */

import type { JSONObject } from "@ai-sdk/provider";
import { type OpenContext, type StopReason, SyscallError } from "rnix/plugin";
import { z } from "zod";

/** The settings that a provider's entry gives its driver. */
export interface Settings {
  base_url?: string;
  /** Where the key comes from, for people: a variable, or a command. */
  key_source?: string;
  extra: JSONObject;
}

/** The settings of the provider whose device is open. INVALID when its entry is wrong. */
export function settingsOf(context: OpenContext): Settings {
  const result = Entry.safeParse(context.config ?? {});
  if (result.success) return { ...result.data, extra: result.data.extra ?? {} };
  throw invalidEntry(result.error);
}

/** What is wrong with the provider's entry, or with its part `at`, in one line. */
export function invalidEntry(cause: z.ZodError, ...at: string[]): SyscallError {
  const wrong = cause.issues.map(({ path, message }) => `${[...at, ...path].join(".")}: ${message}`);
  return new SyscallError("INVALID", `the provider's entry: ${wrong.join("; ")}`, { cause });
}

/** The entry's key; "" where none is needed and there is none. A retry finds no missing key. */
export async function keyOf(
  context: Pick<OpenContext, "secret">,
  need: { required: boolean },
): Promise<string> {
  if (context.secret === undefined)
    throw new SyscallError("INTERNAL", "a model driver was opened without the service `secret`");
  try {
    return checkedKey(await context.secret());
  } catch (error) {
    if (!(error instanceof SyscallError)) throw error;
    if (error.code === "UNAVAILABLE" && !need.required) return "";
    throw new SyscallError(error.code, error.message, { cause: error, retryable: false });
  }
}

/** A header holds only printable ASCII: another character was copied together with the key. */
function checkedKey(key: string): string {
  if (/^[\x20-\x7e]*$/.test(key)) return key;
  const message =
    "The key has a line break or another character that a request cannot carry. Check where it comes from";
  throw new SyscallError("PERMISSION", message);
}

const Entry = z.object({
  base_url: z
    .url({
      protocol: /^https?$/,
      error:
        "expected an address that begins with http:// or https://. It comes from providers.yaml or from the environment (OPENAI_BASE_URL, ANTHROPIC_BASE_URL, …)",
    })
    .optional(),
  key_source: z.string().optional(),
  extra: z.record(z.string(), z.json()).optional(),
});

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
