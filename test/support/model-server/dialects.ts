import type { Turn } from "./script.ts";

/** One of the protocols the server speaks: how an answer and an error look, whole and as a stream. */
export interface Dialect {
  path: string;
  /** The key the request carries. */
  key(headers: Headers): string | null;
  assistantMessages(body: RequestBody): number;
  answer(turn: Turn, call: Call): unknown;
  /** Server-sent events in order. `head` of them belong to the first part of an answer that breaks off. */
  stream(turn: Turn, call: Call): { frames: string[]; head: number };
  error(status: number, code: string | undefined, message: string): unknown;
  errorEvent(code: string, message: string): string;
}

export interface RequestBody {
  model?: string;
  stream?: boolean;
  messages?: { role?: string }[];
  input?: { role?: string; type?: string }[];
  [more: string]: unknown;
}

export interface Call {
  index: number;
  model: string;
}

const chatCompletions: Dialect = {
  path: "/v1/chat/completions",
  key: bearer,
  assistantMessages: countAssistant,
  answer(turn, call) {
    const calls = toolCalls(turn, call);
    return {
      id: `chatcmpl-${call.index}`,
      object: "chat.completion",
      created: 1_700_000_000,
      model: call.model,
      choices: [
        {
          index: 0,
          message: {
            role: "assistant",
            content: turn.text ?? null,
            ...(turn.reasoning === undefined ? {} : { reasoning_content: turn.reasoning }),
            ...(calls.length === 0 ? {} : { tool_calls: calls.map(chatToolCall) }),
          },
          finish_reason: chatFinish(turn),
        },
      ],
      usage: chatUsage(turn),
    };
  },
  stream(turn, call) {
    const base = {
      id: `chatcmpl-${call.index}`,
      object: "chat.completion.chunk",
      created: 1_700_000_000,
      model: call.model,
    };
    const chunk = (delta: object, finish: string | null = null) =>
      data({ ...base, choices: [{ index: 0, delta, finish_reason: finish }] });
    const frames = [chunk({ role: "assistant", content: "" })];
    if (turn.reasoning !== undefined) frames.push(chunk({ reasoning_content: turn.reasoning }));
    for (const piece of pieces(turn)) frames.push(chunk({ content: piece }));
    for (const [index, one] of toolCalls(turn, call).entries()) {
      const wire = chatToolCall(one);
      const half = Math.ceil(one.arguments.length / 2);
      frames.push(
        chunk({ tool_calls: [{ index, ...wire, function: { name: one.name, arguments: "" } }] }),
        chunk({ tool_calls: [{ index, function: { arguments: one.arguments.slice(0, half) } }] }),
        chunk({ tool_calls: [{ index, function: { arguments: one.arguments.slice(half) } }] }),
      );
    }
    frames.push(chunk({}, chatFinish(turn)));
    frames.push(data({ ...base, choices: [], usage: chatUsage(turn) }));
    frames.push("data: [DONE]\n\n");
    return { frames, head: Math.min(2, frames.length - 3) };
  },
  error: openaiError,
  errorEvent: (code, message) => data(openaiError(0, code, message)),
};

const responses: Dialect = {
  path: "/v1/responses",
  key: bearer,
  assistantMessages(body) {
    // One answer becomes several items: a text and its calls. Results separate the answers.
    let count = 0;
    let inAnswer = false;
    for (const item of body.input ?? []) {
      const own = item.role === "assistant" || item.type === "function_call" || item.type === "reasoning";
      if (own && !inAnswer) count++;
      inAnswer = own;
    }
    return count;
  },
  answer(turn, call) {
    return {
      id: `resp-${call.index}`,
      object: "response",
      created_at: 1_700_000_000,
      model: call.model,
      status: "completed",
      error: null,
      output: responseItems(turn, call),
      incomplete_details: incomplete(turn),
      usage: responseUsage(turn),
    };
  },
  stream(turn, call) {
    let sequence = 0;
    const event = (type: string, more: object) => sse(type, { type, sequence_number: sequence++, ...more });
    const base = {
      id: `resp-${call.index}`,
      object: "response",
      created_at: 1_700_000_000,
      model: call.model,
    };
    const frames = [event("response.created", { response: { ...base, status: "in_progress" } })];
    for (const [index, item] of responseItems(turn, call).entries()) {
      if (item.type === "message") {
        frames.push(
          event("response.output_item.added", { output_index: index, item: { ...item, content: [] } }),
        );
        for (const delta of pieces(turn))
          frames.push(
            event("response.output_text.delta", {
              item_id: item.id,
              output_index: index,
              content_index: 0,
              delta,
            }),
          );
      } else {
        frames.push(
          event("response.output_item.added", { output_index: index, item: { ...item, arguments: "" } }),
          event("response.function_call_arguments.delta", {
            item_id: item.id,
            output_index: index,
            delta: item.arguments,
          }),
          event("response.function_call_arguments.done", {
            item_id: item.id,
            output_index: index,
            arguments: item.arguments,
          }),
        );
      }
      frames.push(event("response.output_item.done", { output_index: index, item }));
    }
    const type = incomplete(turn) === null ? "response.completed" : "response.incomplete";
    frames.push(
      event(type, {
        response: { ...base, incomplete_details: incomplete(turn), usage: responseUsage(turn) },
      }),
    );
    return { frames, head: Math.min(3, frames.length - 1) };
  },
  error: openaiError,
  errorEvent: (code, message) =>
    sse("response.failed", {
      type: "response.failed",
      sequence_number: 9,
      response: { error: { code, message }, incomplete_details: null, usage: null },
    }),
};

const messages: Dialect = {
  path: "/v1/messages",
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
          : [{ type: "thinking", thinking: turn.reasoning, signature: "sig" }]),
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
        { type: "thinking_delta", thinking: turn.reasoning },
        { type: "signature_delta", signature: "sig" },
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

export const dialects = [chatCompletions, responses, messages];

const ANTHROPIC_ERRORS: Record<number, string> = {
  400: "invalid_request_error",
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  529: "overloaded_error",
};

const OPENAI_ERRORS: Record<number, string> = {
  400: "invalid_request_error",
  401: "invalid_api_key",
  404: "model_not_found",
  429: "rate_limit_exceeded",
};

function openaiError(status: number, code: string | undefined, message: string): { error: object } {
  const name = code ?? OPENAI_ERRORS[status] ?? "server_error";
  return { error: { message, type: name, param: null, code: name } };
}

interface WireCall {
  id: string;
  name: string;
  arguments: string;
}

function toolCalls(turn: Turn, call: Call): WireCall[] {
  return (turn.tool_calls ?? []).map((one, n) => ({
    id: one.id ?? `call_${call.index}_${n}`,
    name: one.name,
    arguments: one.rawArguments ?? JSON.stringify(one.input ?? {}),
  }));
}

function chatToolCall(one: WireCall) {
  return { id: one.id, type: "function", function: { name: one.name, arguments: one.arguments } };
}

type ResponseItem =
  | { type: "message"; id: string; role: "assistant"; status: string; content: object[] }
  | { type: "function_call"; id: string; call_id: string; name: string; arguments: string; status: string };

function responseItems(turn: Turn, call: Call): ResponseItem[] {
  const items: ResponseItem[] = [];
  if (turn.text !== undefined)
    items.push({
      type: "message",
      id: `msg_${call.index}`,
      role: "assistant",
      status: "completed",
      content: [{ type: "output_text", text: turn.text, annotations: [] }],
    });
  for (const one of toolCalls(turn, call))
    items.push({
      type: "function_call",
      id: `fc_${one.id}`,
      call_id: one.id,
      name: one.name,
      arguments: one.arguments,
      status: "completed",
    });
  return items;
}

function incomplete(turn: Turn): { reason: string } | null {
  if (turn.stop === "max_tokens") return { reason: "max_output_tokens" };
  if (turn.stop === "refusal") return { reason: "content_filter" };
  return null;
}

function chatFinish(turn: Turn): string {
  const names = {
    end_turn: "stop",
    tool_calls: "tool_calls",
    max_tokens: "length",
    refusal: "content_filter",
  };
  return names[stopOf(turn)];
}

function anthropicStop(turn: Turn): string {
  const names = {
    end_turn: "end_turn",
    tool_calls: "tool_use",
    max_tokens: "max_tokens",
    refusal: "refusal",
  };
  return names[stopOf(turn)];
}

function stopOf(turn: Turn) {
  return turn.stop ?? ((turn.tool_calls ?? []).length > 0 ? "tool_calls" : "end_turn");
}

function usageOf(turn: Turn) {
  return {
    input: turn.usage?.input_tokens ?? 10,
    output: turn.usage?.output_tokens ?? 5,
    cached: turn.usage?.cached_tokens ?? 0,
  };
}

function chatUsage(turn: Turn) {
  const { input, output, cached } = usageOf(turn);
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    prompt_tokens_details: { cached_tokens: cached },
  };
}

function responseUsage(turn: Turn) {
  const { input, output, cached } = usageOf(turn);
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: cached },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: input + output,
  };
}

/** This protocol counts cached tokens beside the input, not in it. */
function anthropicUsage(turn: Turn) {
  const { input, output, cached } = usageOf(turn);
  return {
    input_tokens: input - cached,
    cache_read_input_tokens: cached,
    cache_creation_input_tokens: 0,
    output_tokens: output,
  };
}

function pieces(turn: Turn): string[] {
  const text = turn.text ?? "";
  if (text === "") return [];
  const count = Math.min(turn.chunks ?? 3, text.length);
  return Array.from({ length: count }, (_, n) =>
    text.slice(Math.floor((n * text.length) / count), Math.floor(((n + 1) * text.length) / count)),
  );
}

function parsedOrText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function bearer(headers: Headers): string | null {
  return headers.get("authorization")?.replace(/^Bearer /i, "") ?? null;
}

function countAssistant(body: RequestBody): number {
  return (body.messages ?? []).filter((one) => one.role === "assistant").length;
}

function data(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}

function sse(event: string, value: unknown): string {
  return `event: ${event}\n${data(value)}`;
}
