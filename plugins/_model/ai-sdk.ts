/** A model device on top of a provider package of the AI SDK. */

import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4StreamPart,
  LanguageModelV4StreamResult,
  LanguageModelV4Usage,
  SharedV4Warning,
} from "@ai-sdk/provider";
import { type LLMAnswer, type LLMEvent, type LLMRequest, SyscallError, type Usage } from "rnix/plugin";
import { ALIVE, AnswerBuilder, coalesced, Heartbeat } from "./answer-parts.ts";
import { type Blame, cutOff, failure } from "./failure.ts";
import type { Model } from "./model-file.ts";
import { callOptions } from "./prompt.ts";
import { rateLimits } from "./rate-limits.ts";

/** A provider package, set up for one request. */
export interface Prepared {
  model: LanguageModelV4;
  options: LanguageModelV4CallOptions;
  blame: Blame;
  /** Sets the listener for bytes of the answer that arrive. */
  onBytes?(listener: () => void): void;
  /** Reports a setting of the request that was left out. */
  onLeftOut?(what: string): void;
  /** Receives the body of the request as the package wrote it. */
  onRequestBody?(body: unknown): void;
  /** The stop word that the package drops, from an answer or an event of its stream. */
  stopWordOf?(document: unknown): string | undefined;
}

/** Adds what a driver knows to the request's common form: package, key and options. */
type Prepare = (request: LLMRequest, options: LanguageModelV4CallOptions) => Promise<Prepared>;

/** A model behind one of the AI SDK's provider packages, called by `doGenerate` and `doStream`. */
export class AiSdkModel implements Model {
  readonly #driver: string;
  readonly #prepare: Prepare;

  constructor(driver: string, prepare: Prepare) {
    this.#driver = driver;
    this.#prepare = prepare;
  }

  async answer(request: LLMRequest, signal: AbortSignal): Promise<LLMAnswer> {
    const by = this.#by(request);
    const prepared = await this.#prepare(request, callOptions(request, by));
    const { model, options, blame, onLeftOut, onRequestBody, stopWordOf } = prepared;
    const result = await typed(blame, signal, () => model.doGenerate({ ...options, abortSignal: signal }));
    const answer = new AnswerBuilder(by);
    for (const part of result.content) answer.add(part);
    reportLeftOut(result.warnings, onLeftOut);
    onRequestBody?.(result.request?.body);
    const stop = answer.stop(result.finishReason, stopWordOf?.(result.response?.body));
    if (stop.reason === "unknown") throw cutOff(blame, { why: stop.word });
    const used = usage(result.usage);
    const limits = rateLimits(result.response?.headers ?? {});
    return {
      content: answer.text,
      ...(answer.reasoning === "" ? {} : { reasoning: answer.reasoning }),
      tool_calls: answer.finish(stop),
      stop_reason: stop.reason,
      ...(stop.word === undefined ? {} : { stop_word: stop.word }),
      ...answer.paused(stop),
      usage: used,
      tokens_used: used.input_tokens + used.output_tokens,
      ...(limits === undefined ? {} : { limits }),
    };
  }

  async stream(request: LLMRequest, signal: AbortSignal): Promise<AsyncIterable<LLMEvent>> {
    const by = this.#by(request);
    const prepared = await this.#prepare(request, callOptions(request, by));
    const { model, options, blame, onBytes, stopWordOf } = prepared;
    const streamed = { ...options, abortSignal: signal, ...(stopWordOf && { includeRawChunks: true }) };
    const heartbeat = new Heartbeat(parts(() => model.doStream(streamed)));
    onBytes?.(() => heartbeat.onBytes());
    const next = () => typed(blame, signal, () => heartbeat.next());
    return coalesced(events(await next(), next, new AnswerBuilder(by), prepared));
  }

  #by(request: LLMRequest): string {
    return `${this.#driver} ${request.model}`;
  }
}

/** An empty delta shows that the model is at work. */
const AT_WORK: LLMEvent = { type: "reasoning_delta", text: "" };

type StreamPart = LanguageModelV4StreamPart | { type: "opened"; result: LanguageModelV4StreamResult };

/** The opened stream, then its parts. Some packages open it only when its first bytes have arrived. */
function parts(open: () => PromiseLike<LanguageModelV4StreamResult>): () => Promise<StreamPart | undefined> {
  let reader: { read(): Promise<{ value?: LanguageModelV4StreamPart }> } | undefined;
  return async () => {
    if (reader !== undefined) return (await reader.read()).value;
    const result = await open();
    reader = result.stream.getReader();
    return { type: "opened", result };
  };
}

/** Tool calls are held back until the model says why it stopped: before that, none is known to be complete. */
async function* events(
  first: StreamPart | typeof ALIVE | undefined,
  next: () => Promise<StreamPart | typeof ALIVE | undefined>,
  answer: AnswerBuilder,
  { blame, onLeftOut, onRequestBody, stopWordOf }: Prepared,
): AsyncGenerator<LLMEvent> {
  let word: string | undefined;
  for (let part = first; ; part = await next()) {
    if (part === undefined) throw cutOff(blame);
    if (part === ALIVE) {
      yield AT_WORK;
      continue;
    }
    if (part.type !== "opened") answer.addDelta(part);
    switch (part.type) {
      case "raw":
        word = stopWordOf?.(part.rawValue) ?? word;
        break;
      case "opened": {
        onRequestBody?.(part.result.request?.body);
        const limits = rateLimits(part.result.response?.headers ?? {});
        if (limits !== undefined) yield { type: "limits", limits };
        break;
      }
      case "stream-start":
        reportLeftOut(part.warnings, onLeftOut);
        break;
      case "text-delta":
        yield { type: "text_delta", text: part.delta };
        break;
      case "reasoning-delta":
        yield { type: "reasoning_delta", text: part.delta };
        break;
      case "tool-input-start":
      case "tool-input-delta":
      case "ping":
        // Long arguments would look like silence.
        yield AT_WORK;
        break;
      case "error":
        throw failure(part.error, blame);
      case "finish": {
        yield { type: "usage", usage: usage(part.usage) };
        const cut = part.providerMetadata?.compatible?.cut;
        const finish = typeof cut === "string" ? { unified: "other" as const, raw: cut } : part.finishReason;
        const stop = answer.stop(finish, word);
        if (stop.reason === "unknown") throw cutOff(blame, { why: stop.word });
        for (const call of answer.finish(stop)) yield { type: "tool_call", call };
        yield { type: "stop", ...stop, ...answer.paused(stop) };
        return;
      }
    }
  }
}

/** Reports every requested setting that the model does not have, such as an effort. */
function reportLeftOut(warnings: readonly SharedV4Warning[], onLeftOut: Prepared["onLeftOut"]): void {
  for (const warning of warnings) {
    if (warning.type !== "unsupported") continue;
    onLeftOut?.(
      `${warning.feature} is left out${warning.details === undefined ? "" : `: ${warning.details}`}`,
    );
  }
}

function usage({ inputTokens, outputTokens, raw }: LanguageModelV4Usage): Usage {
  // OpenRouter reports the cost in dollars among the token counts.
  const cost = raw?.cost;
  return {
    input_tokens: inputTokens.total ?? 0,
    output_tokens: outputTokens.total ?? 0,
    cached_tokens: inputTokens.cacheRead ?? 0,
    ...(inputTokens.cacheWrite ? { cache_write_tokens: inputTokens.cacheWrite } : {}),
    ...(typeof cost === "number" && cost >= 0 && Number.isFinite(cost) ? { cost_usd: cost } : {}),
  };
}

/** Runs one call of the package; it fails with a typed error. */
async function typed<T>(blame: Blame, signal: AbortSignal, work: () => PromiseLike<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (signal.aborted && signal.reason instanceof SyscallError) throw signal.reason;
    throw failure(error, blame);
  }
}
