import type { Turn } from "../script.ts";
import {
  at,
  bearer,
  type Call,
  type Dialect,
  openaiError,
  pieces,
  sse,
  toolCalls,
  usageOf,
} from "./dialect.ts";

/** OpenAI's Responses. */
export const responses: Dialect = {
  asked: at("/v1/responses"),
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
      status: statusOf(turn),
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
      if (item.type === "reasoning") {
        const at = { item_id: item.id, output_index: index, summary_index: 0 };
        frames.push(
          event("response.output_item.added", { output_index: index, item: { ...item, summary: [] } }),
          event("response.reasoning_summary_part.added", at),
          ...item.summary.map(({ text }) =>
            event("response.reasoning_summary_text.delta", { ...at, delta: text }),
          ),
          event("response.reasoning_summary_part.done", at),
        );
      } else if (item.type === "message") {
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
    const status = statusOf(turn);
    const type = status === "completed" ? "response.completed" : "response.incomplete";
    frames.push(
      event(type, {
        response: { ...base, status, incomplete_details: incomplete(turn), usage: responseUsage(turn) },
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

type ResponseItem =
  | {
      type: "reasoning";
      id: string;
      summary: { type: "summary_text"; text: string }[];
      encrypted_content: string;
    }
  | { type: "message"; id: string; role: "assistant"; status: string; content: object[] }
  | { type: "function_call"; id: string; call_id: string; name: string; arguments: string; status: string };

function responseItems(turn: Turn, call: Call): ResponseItem[] {
  const items: ResponseItem[] = [];
  if (turn.reasoning !== undefined)
    items.push({
      type: "reasoning",
      id: `rs_${call.index}`,
      summary: [{ type: "summary_text", text: turn.reasoning }],
      encrypted_content: `encrypted-${call.index}`,
    });
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

/** A word that is a status of its own is one without a reason. */
function statusOf(turn: Turn): string {
  if (turn.stop_word === null || STATUSES.includes(turn.stop_word ?? ""))
    return turn.stop_word ?? "completed";
  return incomplete(turn) === null ? "completed" : "incomplete";
}

const STATUSES = ["incomplete", "cancelled", "queued"];

function incomplete(turn: Turn): { reason: string } | null {
  if (turn.stop_word === null || STATUSES.includes(turn.stop_word ?? "")) return null;
  if (turn.stop_word !== undefined) return { reason: turn.stop_word };
  if (turn.stop === "max_tokens") return { reason: "max_output_tokens" };
  if (turn.stop === "refusal") return { reason: "content_filter" };
  return null;
}

function responseUsage(turn: Turn) {
  const { input, output, cached, written } = usageOf(turn);
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: cached, cache_write_tokens: written },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: input + output,
  };
}
