import type { Turn } from "../script.ts";
import {
  at,
  bearer,
  countAssistant,
  type Dialect,
  data,
  openaiError,
  pieces,
  stopWordOf,
  toolCalls,
  usageOf,
  type WireCall,
} from "./dialect.ts";

/** OpenAI's chat completions, with the reasoning text that other servers add to them. */
export const chatCompletions: Dialect = {
  asked: at("/v1/chat/completions"),
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
    for (const reasoning_content of pieces(turn, turn.reasoning ?? ""))
      frames.push(chunk({ reasoning_content }));
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

function chatToolCall(one: WireCall) {
  return { id: one.id, type: "function", function: { name: one.name, arguments: one.arguments } };
}

function chatFinish(turn: Turn): string | null {
  return stopWordOf(turn, {
    end_turn: "stop",
    tool_calls: "tool_calls",
    max_tokens: "length",
    refusal: "content_filter",
  });
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
