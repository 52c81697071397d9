/** The schemas of what a model device answers: events, or one whole document. */

import { z } from "zod";
import { issueText } from "../../lib/issue-text.ts";
import { CODES, type LLMEvent, SyscallError, type Usage } from "../../plugin/index.ts";
import { ToolCall as ToolCallSchema, Usage as UsageSchema } from "../../run/message.ts";

const RateLimit = z.lazy(() =>
  z.object({
    limit: z.number().nonnegative().optional(),
    remaining: z.number().optional(),
    reset_ms: z.number().optional(),
  }),
);
const RateLimits = z.lazy(() => z.object({ requests: RateLimit.optional(), tokens: RateLimit.optional() }));
const Stop = z.enum(["end_turn", "tool_calls", "max_tokens", "refusal", "paused", "other", "unknown"]);

const ReportedUsage = z.lazy(() => UsageSchema.transform(sanitizedUsage));

/** Tool calls, stop reason and usage are optional: the smallest driver answers `{content, tokens_used}`. */
const Answer = z.lazy(() =>
  z.object({
    content: z.string(),
    reasoning: z.string().optional(),
    tool_calls: z.array(ToolCallSchema).default([]),
    stop_reason: Stop.default("end_turn"),
    stop_word: z.string().optional(),
    opaque: z.string().optional(),
    usage: ReportedUsage.optional(),
    tokens_used: z.number().optional(),
    limits: RateLimits.optional(),
  }),
);

/**
 * Makes a provider's usage safe to add up: no count is negative, so no call refunds a budget. If more tokens were
 * read from the cache than there was input, the provider counts the two separately, and they are added.
 */
function sanitizedUsage(usage: Usage): Usage {
  const { cache_write_tokens: written, cost_usd } = usage;
  const reported = tokenCount(usage.input_tokens);
  const cached = tokenCount(usage.cached_tokens);
  const input = cached > reported ? reported + cached : reported;
  return {
    input_tokens: input,
    output_tokens: tokenCount(usage.output_tokens),
    cached_tokens: cached,
    ...(written !== undefined && { cache_write_tokens: Math.min(tokenCount(written), input - cached) }),
    ...(cost_usd !== undefined && cost_usd >= 0 && { cost_usd }),
  };
}

function tokenCount(reported: number): number {
  return Math.min(MAX_TOKENS, Math.max(0, Math.round(reported)));
}

/** Tokens of one answer. Far more than any model takes, and small enough to be added without loss. */
const MAX_TOKENS = 1e9;

/** The schema of each event type, built when the first event of that type arrives: a short answer has two types. */
const EVENTS = {
  text_delta: z.lazy(() => z.object({ type: z.literal("text_delta"), text: z.string() })),
  reasoning_delta: z.lazy(() => z.object({ type: z.literal("reasoning_delta"), text: z.string() })),
  tool_call: z.lazy(() => z.object({ type: z.literal("tool_call"), call: ToolCallSchema })),
  turn: z.lazy(() => z.object({ type: z.literal("turn") })),
  usage: z.lazy(() => z.object({ type: z.literal("usage"), usage: ReportedUsage })),
  limits: z.lazy(() => z.object({ type: z.literal("limits"), limits: RateLimits })),
  stop: z.lazy(() =>
    z.object({
      type: z.literal("stop"),
      reason: Stop,
      word: z.string().optional(),
      opaque: z.string().optional(),
    }),
  ),
  error: z.lazy(() =>
    z.object({
      type: z.literal("error"),
      code: z.enum(CODES),
      message: z.string(),
      retry_after_ms: z.number().optional(),
      retryable: z.boolean().optional(),
      too_long: z.boolean().optional(),
    }),
  ),
};
const Kind = z.lazy(() => z.object({ type: z.object(EVENTS).keyof() }));

/** The event in a document. Text deltas skip the schema, because an answer has thousands of them. */
export function eventOf(document: string): LLMEvent {
  const json = jsonOf(document);
  return isDelta(json) ? json : parsed(EVENTS[parsed(Kind, json).type], json);
}

/** The answer in a document of a driver that does not stream. Without usage, its tokens count as output. */
export function answerOf(document: string) {
  const { tokens_used = 0, ...answer } = parsed(Answer, jsonOf(document));
  const all = { input_tokens: 0, output_tokens: tokens_used, cached_tokens: 0 };
  return { ...answer, usage: answer.usage ?? sanitizedUsage(all) };
}

function isDelta(value: unknown): value is { type: "text_delta" | "reasoning_delta"; text: string } {
  return (
    typeof value === "object" &&
    value !== null &&
    "type" in value &&
    (value.type === "text_delta" || value.type === "reasoning_delta") &&
    "text" in value &&
    typeof value.text === "string"
  );
}

function jsonOf(document: string): unknown {
  try {
    return JSON.parse(document);
  } catch (cause) {
    const shown = JSON.stringify(document.slice(0, 80));
    const message = `the model's driver must answer in JSON, one document a read; it answered ${shown}`;
    throw new SyscallError("DRIVER", message, { cause, retryable: true });
  }
}

function parsed<S extends z.ZodType>(schema: S, json: unknown): z.infer<S> {
  const result = schema.safeParse(json);
  if (result.success) return result.data;
  const message = `the model's driver sent an answer that is not valid: ${issueText(result.error)}`;
  throw new SyscallError("DRIVER", message, { cause: result.error, retryable: false });
}
