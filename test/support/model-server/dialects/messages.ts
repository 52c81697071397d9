import type { Turn } from "../script.ts";
import {
  at,
  bearer,
  countAssistant,
  type Dialect,
  parsedOrText,
  pieces,
  sse,
  stopWordOf,
  toolCalls,
  usageOf,
} from "./dialect.ts";

/** Anthropic's Messages. */
export const messages: Dialect = {
  asked: at("/v1/messages"),
  key: (headers) => headers.get("x-api-key") ?? bearer(headers),
  assistantMessages: countAssistant,
  answer(turn, call) {
    return {
      id: `msg-${call.index}`,
      type: "message",
      role: "assistant",
      model: call.model,
      content: [
        ...(turn.reasoning === undefined
          ? []
          : [{ type: "thinking", thinking: turn.reasoning, signature: `signature-${call.index}` }]),
        ...(turn.text === undefined ? [] : [{ type: "text", text: turn.text }]),
        ...toolCalls(turn, call).map((one) => ({
          type: "tool_use",
          id: one.id,
          name: one.name,
          input: parsedOrText(one.arguments),
        })),
      ],
      stop_reason: anthropicStop(turn),
      stop_sequence: null,
      usage: anthropicUsage(turn),
    };
  },
  stream(turn, call) {
    const event = (type: string, more: object) => sse(type, { type, ...more });
    const usage = anthropicUsage(turn);
    const frames = [
      event("message_start", {
        message: {
          id: `msg-${call.index}`,
          type: "message",
          role: "assistant",
          model: call.model,
          content: [],
          stop_reason: null,
          stop_sequence: null,
          usage: { ...usage, output_tokens: 1 },
        },
      }),
      event("ping", {}),
    ];
    let index = 0;
    const block = (start: object, deltas: object[]) => {
      frames.push(event("content_block_start", { index, content_block: start }));
      for (const delta of deltas) frames.push(event("content_block_delta", { index, delta }));
      frames.push(event("content_block_stop", { index }));
      index++;
    };
    if (turn.reasoning !== undefined)
      block({ type: "thinking", thinking: "" }, [
        ...pieces(turn, turn.reasoning).map((thinking) => ({ type: "thinking_delta", thinking })),
        { type: "signature_delta", signature: `signature-${call.index}` },
      ]);
    if (turn.text !== undefined)
      block(
        { type: "text", text: "" },
        pieces(turn).map((text) => ({ type: "text_delta", text })),
      );
    for (const one of toolCalls(turn, call)) {
      const half = Math.ceil(one.arguments.length / 2);
      block({ type: "tool_use", id: one.id, name: one.name, input: {} }, [
        { type: "input_json_delta", partial_json: one.arguments.slice(0, half) },
        { type: "input_json_delta", partial_json: one.arguments.slice(half) },
      ]);
    }
    frames.push(
      event("message_delta", {
        delta: { stop_reason: anthropicStop(turn), stop_sequence: null },
        usage: { output_tokens: usage.output_tokens },
      }),
      event("message_stop", {}),
    );
    return { frames, head: Math.min(4, frames.length - 2) };
  },
  error: (status, code, message) => ({
    type: "error",
    error: { type: code ?? ANTHROPIC_ERRORS[status] ?? "api_error", message },
  }),
  errorEvent: (code, message) => sse("error", { type: "error", error: { type: code, message } }),
};

const ANTHROPIC_ERRORS: Record<number, string> = {
  400: "invalid_request_error",
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  529: "overloaded_error",
};

function anthropicStop(turn: Turn): string | null {
  return stopWordOf(turn, {
    end_turn: "end_turn",
    tool_calls: "tool_use",
    max_tokens: "max_tokens",
    refusal: "refusal",
  });
}

/** This protocol counts cached tokens beside the input, not in it. */
function anthropicUsage(turn: Turn) {
  const { input, output, cached, written } = usageOf(turn);
  return {
    input_tokens: input - cached - written,
    cache_read_input_tokens: cached,
    cache_creation_input_tokens: written,
    output_tokens: output,
  };
}
