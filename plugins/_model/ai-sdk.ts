/** A model device on top of a provider package of the AI SDK, and its form of a request's messages. */

import type {
  JSONSchema7,
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4FilePart,
  LanguageModelV4Message,
  LanguageModelV4StreamPart,
  LanguageModelV4StreamResult,
  LanguageModelV4Usage,
  SharedV4Warning,
} from "@ai-sdk/provider";
import {
  type LLMAnswer,
  type LLMEvent,
  type LLMMessage,
  type LLMRequest,
  SyscallError,
  type Usage,
} from "rnix/plugin";
import {
  ALIVE,
  AnswerBuilder,
  type AssistantContent,
  coalesced,
  Heartbeat,
  pausedMessage,
  signaturesOf,
} from "./answer-parts.ts";
import { type Blame, cutOff, failure } from "./failure.ts";
import type { Model } from "./model-file.ts";
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

/**
 * A request in the form of the provider packages; a driver adds what is specific to its provider. `by`: the model
 * whose signatures are sent back.
 */
export function callOptions(request: LLMRequest, by: string): LanguageModelV4CallOptions {
  return {
    prompt: prompt(request, by),
    ...(request.max_output === undefined ? {} : { maxOutputTokens: request.max_output }),
    ...(request.effort === undefined ? {} : { reasoning: request.effort }),
    ...(request.tools === undefined || request.tools.length === 0 ? {} : { tools: tools(request.tools) }),
  };
}

function prompt(request: LLMRequest, by: string): LanguageModelV4Message[] {
  const head = leadingSystem(request.messages);
  const system = [request.system_prompt, ...head.map((message) => message.content)].filter(
    (text) => text !== "",
  );
  const result: LanguageModelV4Message[] = [];
  if (system.length > 0) result.push({ role: "system", content: system.join("\n\n") });
  const rest = request.messages.slice(head.length);
  if (rest.length === 0) rest.push({ role: "user", content: request.intent });
  const names = new Map<string, string>();
  for (const message of rest) append(result, message, names, by);
  return result;
}

/** Appends one message. The results of one batch of calls become one message, as providers expect. */
function append(
  result: LanguageModelV4Message[],
  message: LLMMessage,
  names: Map<string, string>,
  by: string,
): void {
  switch (message.role) {
    case "system":
      // Most servers refuse this role within a conversation, so it becomes a marked user message.
      result.push({
        role: "user",
        content: [text(`<system>\n${withoutSystemTags(message.content)}\n</system>`)],
      });
      break;
    case "user":
      result.push({ role: "user", content: [text(message.content), ...images(message)] });
      break;
    case "assistant":
      for (const call of message.tool_calls ?? []) names.set(call.id, call.name);
      appendAssistant(result, message, by);
      break;
    case "tool":
      appendResult(result, message, names);
  }
}

/** Escapes tags in the text that would open or close the marker. */
function withoutSystemTags(content: string): string {
  return content.replace(/<(?=[\s/]*system\b)/gi, "&lt;");
}

function appendAssistant(result: LanguageModelV4Message[], message: LLMMessage, by: string): void {
  const paused = pausedMessage(message.opaque, by);
  if (paused !== undefined) {
    result.push({ role: "assistant", content: paused });
    return;
  }
  const thoughts: AssistantContent = [];
  const calls: AssistantContent = [];
  for (const call of message.tool_calls ?? []) {
    const signatures = signaturesOf(call, by);
    for (const { text, meta } of signatures?.thoughts ?? [])
      thoughts.push({ type: "reasoning", text, providerOptions: meta });
    const { id: toolCallId, name: toolName, input } = call;
    const providerOptions = signatures?.meta;
    calls.push({
      type: "tool-call",
      toolCallId,
      toolName,
      input,
      ...(providerOptions && { providerOptions }),
    });
  }
  const content = [...thoughts, ...(message.content === "" ? [] : [text(message.content)]), ...calls];
  if (content.length > 0) result.push({ role: "assistant", content });
}

function appendResult(
  result: LanguageModelV4Message[],
  message: LLMMessage,
  names: Map<string, string>,
): void {
  const id = message.tool_call_id ?? "";
  const toolName = names.get(id);
  if (toolName === undefined) {
    const message = `a tool's result must answer an earlier call; there is no call with id "${id}"`;
    throw new SyscallError("INVALID", message);
  }
  const part = {
    type: "tool-result" as const,
    toolCallId: id,
    toolName,
    output: { type: "text" as const, value: message.content },
  };
  const last = result.at(-1);
  if (last?.role === "tool") last.content.push(part);
  else result.push({ role: "tool", content: [part] });
}

function leadingSystem(messages: LLMMessage[]): LLMMessage[] {
  const end = messages.findIndex((message) => message.role !== "system");
  return messages.slice(0, end === -1 ? messages.length : end);
}

function images({ images = [] }: LLMMessage): LanguageModelV4FilePart[] {
  return images.map(({ media_type, data }) => ({
    type: "file",
    mediaType: media_type,
    data: { type: "data", data },
  }));
}

function text(value: string): { type: "text"; text: string } {
  return { type: "text", text: value };
}

function tools(list: NonNullable<LLMRequest["tools"]>): LanguageModelV4CallOptions["tools"] {
  return list.map((tool) => ({
    type: "function",
    name: tool.name,
    description: tool.description,
    inputSchema: tool.input satisfies JSONSchema7,
  }));
}
