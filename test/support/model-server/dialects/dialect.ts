import type { Turn } from "../script.ts";

/** One of the protocols the server speaks: how an answer and an error look, whole and as a stream. */
export interface Dialect {
  /** What a request to this path asks for beside its body; undefined when the path is none of this protocol's. */
  asked(path: string): { model?: string; stream?: boolean } | undefined;
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
  contents?: { role?: string }[];
  [more: string]: unknown;
}

export interface Call {
  index: number;
  model: string;
}

export interface WireCall {
  id: string;
  name: string;
  arguments: string;
}

/** A protocol with one path, whose requests say model and stream in their body. */
export function at(path: string): Dialect["asked"] {
  return (asked) => (asked === path ? {} : undefined);
}

export function toolCalls(turn: Turn, call: Call): WireCall[] {
  return (turn.tool_calls ?? []).map((one, n) => ({
    id: one.id ?? `call_${call.index}_${n}`,
    name: one.name,
    arguments: one.rawArguments ?? JSON.stringify(one.input ?? {}),
  }));
}

export function stopOf(turn: Turn) {
  return turn.stop ?? ((turn.tool_calls ?? []).length > 0 ? "tool_calls" : "end_turn");
}

/** The word with which a protocol ends this answer, of those that it has by default. */
export function stopWordOf(turn: Turn, names: Record<NonNullable<Turn["stop"]>, string>): string | null {
  return turn.stop_word === undefined ? names[stopOf(turn)] : turn.stop_word;
}

export function usageOf(turn: Turn) {
  return {
    input: turn.usage?.input_tokens ?? 10,
    output: turn.usage?.output_tokens ?? 5,
    cached: turn.usage?.cached_tokens ?? 0,
    written: turn.usage?.cache_write_tokens ?? 0,
  };
}

/** The text as it is streamed. */
export function pieces(turn: Turn, text = turn.text ?? ""): string[] {
  if (text === "") return [];
  const count = Math.min(turn.chunks ?? 3, text.length);
  return Array.from({ length: count }, (_, n) =>
    text.slice(Math.floor((n * text.length) / count), Math.floor(((n + 1) * text.length) / count)),
  );
}

export function parsedOrText(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

export function bearer(headers: Headers): string | null {
  return headers.get("authorization")?.replace(/^Bearer /i, "") ?? null;
}

export function countAssistant(body: RequestBody): number {
  return (body.messages ?? []).filter((one) => one.role === "assistant").length;
}

const OPENAI_ERRORS: Record<number, string> = {
  400: "invalid_request_error",
  401: "invalid_api_key",
  404: "model_not_found",
  429: "rate_limit_exceeded",
};

export function openaiError(status: number, code: string | undefined, message: string): { error: object } {
  const name = code ?? OPENAI_ERRORS[status] ?? "server_error";
  return { error: { message, type: name, param: null, code: name } };
}

export function data(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}

export function sse(event: string, value: unknown): string {
  return `event: ${event}\n${data(value)}`;
}
