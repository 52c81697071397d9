import type { Turn } from "../script.ts";
import {
  type Call,
  type Dialect,
  data,
  parsedOrText,
  pieces,
  stopWordOf,
  toolCalls,
  usageOf,
} from "./dialect.ts";

/** Google's generateContent. The path says the model, and whether a stream is asked for. */
export const gemini: Dialect = {
  asked(path) {
    const [, model, method] =
      /^\/v1beta\/models\/([^/:]+):(generateContent|streamGenerateContent)$/.exec(path) ?? [];
    return model === undefined ? undefined : { model, stream: method === "streamGenerateContent" };
  },
  key: (headers) => headers.get("x-goog-api-key"),
  assistantMessages: (body) => (body.contents ?? []).filter((one) => one.role === "model").length,
  answer: (turn, call) =>
    response(call, [...thoughts(turn), ...texts(turn.text), ...functionCalls(turn, call)], turn),
  stream(turn, call) {
    const parts = [...thoughts(turn), ...pieces(turn).flatMap(texts), ...functionCalls(turn, call)];
    const frames = parts.map((part) => data(response(call, [part])));
    // The last one has no more to say than why it is the last.
    frames.push(data(response(call, texts(""), turn)));
    return { frames, head: Math.min(2, frames.length - 1) };
  },
  error: geminiError,
  errorEvent: (code, message) => data(geminiError(0, code, message)),
};

function response(call: Call, parts: object[], last?: Turn): object {
  const { input, output, cached } = usageOf(last ?? {});
  return {
    candidates: [
      {
        content: { parts, role: "model" },
        ...(last === undefined ? {} : { finishReason: finish(last) }),
        index: 0,
      },
    ],
    usageMetadata: {
      promptTokenCount: input,
      cachedContentTokenCount: cached,
      // Only the last one tells what was written in all.
      ...(last === undefined ? {} : { candidatesTokenCount: output }),
      totalTokenCount: input + (last === undefined ? 0 : output),
    },
    modelVersion: call.model,
    responseId: `gemini-${call.index}`,
  };
}

function thoughts({ reasoning }: Turn): object[] {
  return reasoning === undefined ? [] : [{ text: reasoning, thought: true }];
}

function texts(text: string | undefined): object[] {
  return text === undefined ? [] : [{ text }];
}

/** The first call of a batch carries the signature of the thoughts that led to it. */
function functionCalls(turn: Turn, call: Call): object[] {
  return toolCalls(turn, call).map(({ id, name, arguments: args }, index) => ({
    functionCall: { id, name, args: parsedOrText(args) },
    ...(index === 0 ? { thoughtSignature: `signature-${call.index}` } : {}),
  }));
}

function finish(turn: Turn): string | null {
  return stopWordOf(turn, {
    end_turn: "STOP",
    tool_calls: "STOP",
    max_tokens: "MAX_TOKENS",
    refusal: "SAFETY",
  });
}

const STATUSES: Record<number, string> = {
  400: "INVALID_ARGUMENT",
  401: "UNAUTHENTICATED",
  403: "PERMISSION_DENIED",
  404: "NOT_FOUND",
  429: "RESOURCE_EXHAUSTED",
  500: "INTERNAL",
  503: "UNAVAILABLE",
};

/** Without an HTTP status, as in an answer that began well, the name says the number. */
function geminiError(status: number, name: string | undefined, message: string): { error: object } {
  const named = Object.keys(STATUSES).find((one) => STATUSES[Number(one)] === name);
  const code = status >= 400 ? status : Number(named ?? 0);
  return { error: { code, message, status: name ?? STATUSES[status] ?? "UNKNOWN" } };
}
