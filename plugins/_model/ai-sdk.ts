import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4Content,
  LanguageModelV4FinishReason,
  LanguageModelV4Reasoning,
  LanguageModelV4StreamPart,
  LanguageModelV4StreamResult,
  LanguageModelV4ToolCall,
  LanguageModelV4Usage,
  SharedV4Warning,
} from "@ai-sdk/provider";
import {
  type LLMAnswer,
  type LLMEvent,
  type LLMRequest,
  SyscallError,
  type ToolCall,
  type Usage,
} from "rnix/plugin";
import { gathered } from "./coalesce.ts";
import { type Blame, cutOff, failure } from "./failure.ts";
import { ALIVE, Heartbeat } from "./heartbeat.ts";
import { isTooDeep, MAX_DEPTH } from "./json-depth.ts";
import type { Model } from "./model-file.ts";
import { Whole } from "./pause.ts";
import { callOptions } from "./prompt.ts";
import { rateLimits } from "./rate-limits.ts";
import { ReasoningSignatures } from "./reasoning-signature.ts";
import { type Stop, stopOf } from "./stop-words.ts";

/** A provider package made ready for one request. */
interface Prepared {
  model: LanguageModelV4;
  options: LanguageModelV4CallOptions;
  blame: Blame;
  /** Sets who is told whenever some of the answer has come. */
  whenHeard?(heard: () => void): void;
  /** Told what of the request the package has left out, in words. */
  leftOut?(what: string): void;
  /** Shown the body of the request as the package has made it. */
  sent?(body: unknown): void;
  /** The word of an end that the package does not pass on, of an answer or of an event of its stream. */
  endWord?(document: unknown): string | undefined;
}

/** What a driver adds to the request's common form: its package, its key, its own options. */
type Prepare = (request: LLMRequest, options: LanguageModelV4CallOptions) => Promise<Prepared>;

/** A model behind one of the AI SDK's provider packages, spoken to by `doGenerate` and `doStream`. */
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
    const { model, options, blame, leftOut, sent, endWord } = prepared;
    const result = await guarded(blame, signal, () => model.doGenerate({ ...options, abortSignal: signal }));
    const answer = new Collected(by);
    for (const part of result.content) {
      answer.add(part);
      answer.whole.add(part);
    }
    tell(result.warnings, leftOut);
    sent?.(result.request?.body);
    const stop = answer.stop(result.finishReason, endWord?.(result.response?.body));
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
    const { model, options, blame, whenHeard, endWord } = prepared;
    const asked = { ...options, abortSignal: signal, ...(endWord && { includeRawChunks: true }) };
    const arrivals = new Heartbeat(parts(() => model.doStream(asked)));
    whenHeard?.(() => arrivals.heard());
    const next = () => guarded(blame, signal, () => arrivals.next());
    return gathered(events(await next(), next, new Collected(by), prepared));
  }

  #by(request: LLMRequest): string {
    return `${this.#driver} ${request.model}`;
  }
}

const SIGN_OF_LIFE: LLMEvent = { type: "reasoning_delta", text: "" };

type Arrived = LanguageModelV4StreamPart | { type: "begun"; begun: LanguageModelV4StreamResult };

/** That the answer begins, and its parts. Some packages begin it only when something of it has come. */
function parts(begin: () => PromiseLike<LanguageModelV4StreamResult>): () => Promise<Arrived | undefined> {
  let reader: { read(): Promise<{ value?: LanguageModelV4StreamPart }> } | undefined;
  return async () => {
    if (reader !== undefined) return (await reader.read()).value;
    const begun = await begin();
    reader = begun.stream.getReader();
    return { type: "begun", begun };
  };
}

/** Tool calls are held back until the model says why it stopped: before that, none is known to be whole. */
async function* events(
  first: Arrived | typeof ALIVE | undefined,
  next: () => Promise<Arrived | typeof ALIVE | undefined>,
  answer: Collected,
  { blame, leftOut, sent, endWord }: Prepared,
): AsyncGenerator<LLMEvent> {
  let word: string | undefined;
  for (let part = first; ; part = await next()) {
    if (part === undefined) throw cutOff(blame);
    if (part === ALIVE) {
      yield SIGN_OF_LIFE;
      continue;
    }
    if (part.type !== "begun") answer.whole.piece(part);
    switch (part.type) {
      case "raw":
        word = endWord?.(part.rawValue) ?? word;
        break;
      case "begun": {
        sent?.(part.begun.request?.body);
        const limits = rateLimits(part.begun.response?.headers ?? {});
        if (limits !== undefined) yield { type: "limits", limits };
        break;
      }
      case "stream-start":
        tell(part.warnings, leftOut);
        break;
      case "text-delta":
        answer.afterCall = false;
        yield { type: "text_delta", text: part.delta };
        break;
      case "reasoning-start":
      case "reasoning-end":
        answer.thoughts.piece(part.id, "", part.providerMetadata);
        break;
      case "reasoning-delta":
        answer.thoughts.piece(part.id, part.delta, part.providerMetadata);
        yield { type: "reasoning_delta", text: part.delta };
        break;
      case "tool-input-start":
      case "tool-input-delta":
      case "ping":
        // Long arguments are otherwise silence.
        yield SIGN_OF_LIFE;
        break;
      case "tool-call":
        answer.add(part);
        break;
      case "error":
        throw failure(part.error, blame);
      case "finish": {
        yield { type: "usage", usage: usage(part.usage) };
        const stop = answer.stop(part.finishReason, word);
        if (stop.reason === "unknown") throw cutOff(blame, { why: stop.word });
        for (const call of answer.finish(stop)) yield { type: "tool_call", call };
        yield { type: "stop", ...stop, ...answer.paused(stop) };
        return;
      }
    }
  }
}

/** What a model has no setting for, such as an effort: nothing that was asked for is dropped without a word. */
function tell(warnings: readonly SharedV4Warning[], leftOut: Prepared["leftOut"]): void {
  for (const warning of warnings) {
    if (warning.type !== "unsupported") continue;
    leftOut?.(`${warning.feature} is left out${warning.details === undefined ? "" : `: ${warning.details}`}`);
  }
}

class Collected {
  readonly thoughts: ReasoningSignatures;
  readonly whole = new Whole();
  readonly #by: string;
  text = "";
  reasoning = "";
  readonly calls: ToolCall[] = [];
  /** The last thing the model wrote was a tool call. */
  afterCall = false;

  constructor(by: string) {
    this.#by = by;
    this.thoughts = new ReasoningSignatures(by);
  }

  add(part: LanguageModelV4Content): void {
    // What the provider has called and run itself is no call of the process.
    if (part.type === "tool-call" && part.providerExecuted === true) return;
    if (part.type === "tool-call") this.#addCall(part);
    else if (part.type === "text") this.text += part.text;
    else if (part.type === "reasoning") this.#addThought(part);
    this.afterCall = part.type === "tool-call" || (this.afterCall && part.type !== "text");
  }

  stop(finish: LanguageModelV4FinishReason, word: string | undefined): Stop {
    return endOf(finish, this.calls.length > 0, word);
  }

  /** What a model that has paused is to see again. */
  paused({ reason }: Stop): { opaque?: string } {
    const opaque = reason === "paused" ? this.whole.pause(this.#by) : undefined;
    return opaque === undefined ? {} : { opaque };
  }

  /** At the output limit a call that came last may have been cut where it happened to be valid JSON. */
  finish({ reason }: Stop): ToolCall[] {
    const calls = this.thoughts.signed(this.calls);
    const last = calls.at(-1);
    if (reason !== "max_tokens" || !this.afterCall || last === undefined) return calls;
    const cut = { text: JSON.stringify(last.input), reason: "the output limit was reached within this call" };
    return [...calls.slice(0, -1), { ...last, input: {}, invalid: last.invalid ?? cut }];
  }

  #addCall(part: LanguageModelV4ToolCall): void {
    const call = toolCall(part);
    this.calls.push(call);
    this.thoughts.call(call.id, part.providerMetadata);
  }

  #addThought({ text, providerMetadata }: LanguageModelV4Reasoning): void {
    this.reasoning += text;
    this.thoughts.whole(text, providerMetadata);
  }
}

function toolCall({ input: text, toolCallId, toolName }: LanguageModelV4ToolCall): ToolCall {
  const call = { id: toolCallId, name: toolName, input: {} };
  // No arguments at all is how several servers write those of a tool that takes none.
  if (text.trim() === "") return call;
  if (isTooDeep(text, MAX_DEPTH)) {
    const reason = `the arguments are nested more than ${MAX_DEPTH} levels deep`;
    return { ...call, invalid: { text, reason } };
  }
  try {
    const input: unknown = JSON.parse(text);
    if (isObject(input)) return { ...call, input };
    return { ...call, invalid: { text, reason: "the arguments must be a JSON object" } };
  } catch (error) {
    return { ...call, invalid: { text, reason: `the arguments are not JSON: ${String(error)}` } };
  }
}

/** The word decides; a package's own name for it counts where there is none, or where it has seen a refusal. */
function endOf({ unified, raw }: LanguageModelV4FinishReason, hasCalls: boolean, left?: string): Stop {
  const word = raw ?? left;
  if (unified === "content-filter") {
    const stop = stopOf(word ?? "", false);
    return { reason: "refusal", word: stop.reason === "end_turn" || !word ? "refusal" : word };
  }
  // OpenAI's Responses have a word for what is not whole alone.
  if (word === undefined && (unified === "stop" || unified === "tool-calls"))
    return { reason: hasCalls ? "tool_calls" : "end_turn" };
  const stop = stopOf(word ?? "", hasCalls);
  // Where the form of an answer is held to by a tool of the package's own.
  return stop.reason === "tool_calls" && unified === "stop" && !hasCalls ? { reason: "end_turn" } : stop;
}

function usage({ inputTokens, outputTokens, raw }: LanguageModelV4Usage): Usage {
  // OpenRouter says it, in dollars, among its counts of tokens.
  const cost = raw?.cost;
  return {
    input_tokens: inputTokens.total ?? 0,
    output_tokens: outputTokens.total ?? 0,
    cached_tokens: inputTokens.cacheRead ?? 0,
    ...(typeof cost === "number" && cost >= 0 && Number.isFinite(cost) ? { cost_usd: cost } : {}),
  };
}

async function guarded<T>(blame: Blame, signal: AbortSignal, work: () => PromiseLike<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (signal.aborted && signal.reason instanceof SyscallError) throw signal.reason;
    throw failure(error, blame);
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
