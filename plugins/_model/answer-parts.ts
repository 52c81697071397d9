/**
 * The parts of an answer of a provider package: how they are collected, with what a model signed, or paused at, and gets
 * back; and how those of a stream come, joined where they come in a burst, with signs of life between them.
 */

import type {
  JSONValue,
  LanguageModelV4Content,
  LanguageModelV4FinishReason,
  LanguageModelV4Message,
  LanguageModelV4StreamPart,
  LanguageModelV4ToolCall,
  SharedV4ProviderMetadata,
} from "@ai-sdk/provider";
import type { LLMEvent, ToolCall } from "rnix/plugin";
import { z } from "zod";
import { isObject, JsonDepth } from "../_lib/json.ts";
import { type Stop, stopOf } from "./settings.ts";

export type AssistantContent = Extract<LanguageModelV4Message, { role: "assistant" }>["content"];
type TextPart = Extract<AssistantContent[number], { type: "text" | "reasoning" }>;
type Part = AssistantContent[number] | { type: "call"; call: ToolCall; meta?: SharedV4ProviderMetadata };

/** The parts of one answer in their order, streamed or in one piece. `by`: the model that gives it. */
export class AnswerBuilder {
  readonly #by: string;
  readonly #parts: Part[] = [];
  /** Parts of a stream, by their kind and id. */
  readonly #open = new Map<string, TextPart>();

  constructor(by: string) {
    this.#by = by;
  }

  get text(): string {
    return this.#textOf("text");
  }

  get reasoning(): string {
    return this.#textOf("reasoning");
  }

  addDelta(part: LanguageModelV4StreamPart): void {
    switch (part.type) {
      case "text-start":
      case "text-delta":
      case "text-end":
        this.#append("text", part);
        break;
      case "reasoning-start":
      case "reasoning-delta":
      case "reasoning-end":
        this.#append("reasoning", part);
        break;
      case "tool-call":
      case "tool-result":
        this.add(part);
    }
  }

  /** Adds a complete part. A tool that the provider has run itself is not a call of the process. */
  add(part: LanguageModelV4Content): void {
    const meta = "providerMetadata" in part ? part.providerMetadata : undefined;
    const options = meta && { providerOptions: merged(undefined, meta) };
    switch (part.type) {
      case "text":
      case "reasoning":
        this.#parts.push({ type: part.type, text: part.text, ...options });
        break;
      case "tool-call": {
        const { toolCallId, toolName, providerExecuted, input } = part;
        if (providerExecuted === true)
          this.#parts.push({
            type: "tool-call",
            toolCallId,
            toolName,
            input: inputOf(input),
            providerExecuted,
            ...options,
          });
        else this.#parts.push({ type: "call", call: toolCall(part), meta });
        break;
      }
      case "tool-result": {
        const { toolCallId, toolName, result: value } = part;
        const output = { type: "json", value } as const;
        this.#parts.push({ type: "tool-result", toolCallId, toolName, output, ...options });
      }
    }
  }

  stop(finish: LanguageModelV4FinishReason, word: string | undefined): Stop {
    return stopFrom(
      finish,
      this.#parts.some(({ type }) => type === "call"),
      word,
    );
  }

  /**
   * The message that a model that has paused in the middle of its turn must be sent again, unchanged, with the tools that
   * its provider has run.
   */
  paused({ reason }: Stop): { opaque?: string } {
    const parts = this.#parts.filter(
      (part) => part.type !== "call" && (part.type !== "text" || part.text !== ""),
    );
    if (reason !== "paused" || parts.length === 0) return {};
    return { opaque: JSON.stringify({ by: this.#by, parts }) };
  }

  /** The calls, signed. At the output limit the last one may be cut where its input happens to be valid JSON. */
  finish({ reason }: Stop): ToolCall[] {
    const calls = this.#signed();
    const isLast = this.#parts.findLast(isWritten)?.type === "call";
    const last = calls.at(-1);
    if (reason !== "max_tokens" || !isLast || last === undefined) return calls;
    const cut = { text: JSON.stringify(last.input), reason: "the output limit was reached within this call" };
    return [...calls.slice(0, -1), { ...last, input: {}, invalid: last.invalid ?? cut }];
  }

  /** The calls with their signatures. Thoughts without a signature are left out. */
  #signed(): ToolCall[] {
    const thoughts = this.#parts.flatMap((part) =>
      part.type === "reasoning" && part.providerOptions
        ? { text: part.text, meta: part.providerOptions }
        : [],
    );
    const calls = this.#parts.filter((part) => part.type === "call");
    return calls.map(({ call, meta }, index) => {
      const isFirst = index === 0 && thoughts.length > 0;
      if (meta === undefined && !isFirst) return call;
      const signatures = { by: this.#by, ...(isFirst && { thoughts }), ...(meta && { meta }) };
      return { ...call, opaque: JSON.stringify(signatures) };
    });
  }

  #textOf(type: TextPart["type"]): string {
    return this.#parts.map((part) => (part.type === type ? part.text : "")).join("");
  }

  #append(type: TextPart["type"], { id, delta = "", providerMetadata }: TextDelta): void {
    const key = `${type} ${id}`;
    const known = this.#open.get(key);
    const part: TextPart = known ?? { type, text: "" };
    if (known === undefined) {
      this.#open.set(key, part);
      this.#parts.push(part);
    }
    part.text += delta;
    if (providerMetadata !== undefined) part.providerOptions = merged(part.providerOptions, providerMetadata);
  }
}

interface TextDelta {
  id: string;
  delta?: string;
  providerMetadata?: SharedV4ProviderMetadata;
}

/** Text or a call: the parts by which is known what the model wrote last. */
function isWritten(part: Part): boolean {
  return part.type === "call" || (part.type === "text" && part.text !== "");
}

const MAX_INPUT_LEVELS = 500;

function toolCall({ input: text, toolCallId, toolName }: LanguageModelV4ToolCall): ToolCall {
  const call = { id: toolCallId, name: toolName, input: {} };
  // Several servers send an empty text for a tool without arguments.
  if (text.trim() === "") return call;
  if (new JsonDepth("one", MAX_INPUT_LEVELS).exceeds(Buffer.from(text))) {
    const reason = `the arguments are nested more than ${MAX_INPUT_LEVELS} levels deep`;
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

function inputOf(text: string): JSONValue {
  try {
    const value: JSONValue = JSON.parse(text);
    return value;
  } catch {
    return text;
  }
}

/** The provider's word decides. The package's own name counts where there is no word, or for a refusal. */
function stopFrom({ unified, raw }: LanguageModelV4FinishReason, hasCalls: boolean, dropped?: string): Stop {
  const word = raw ?? dropped;
  if (unified === "content-filter") {
    const stop = stopOf(word ?? "", false);
    return { reason: "refusal", word: stop.reason === "end_turn" || !word ? "refusal" : word };
  }
  // OpenAI's Responses have a word for incomplete answers only.
  if (word === undefined && (unified === "stop" || unified === "tool-calls"))
    return { reason: hasCalls ? "tool_calls" : "end_turn" };
  const stop = stopOf(word ?? "", hasCalls);
  // A package may enforce the answer's schema with a tool of its own.
  return stop.reason === "tool_calls" && unified === "stop" && !hasCalls ? { reason: "end_turn" } : stop;
}

/** Later values replace earlier ones, unless they are null. */
function merged(
  before: SharedV4ProviderMetadata | undefined,
  meta: SharedV4ProviderMetadata,
): SharedV4ProviderMetadata {
  const result = { ...before };
  for (const [provider, values] of Object.entries(meta)) {
    const given = Object.entries(values).filter((entry): entry is [string, JSONValue] => entry[1] != null);
    result[provider] = { ...result[provider], ...Object.fromEntries(given) };
  }
  return result;
}

const Meta = z.lazy(() => z.record(z.string(), z.record(z.string(), z.json())));
const options = { providerOptions: Meta.optional() };

/** Parts of a paused message in the form of the provider packages, in their order. */
const PausedMessage = z.lazy(() =>
  z.object({
    by: z.string(),
    parts: z.array(
      z.discriminatedUnion("type", [
        z.object({ type: z.literal("text"), text: z.string(), ...options }),
        z.object({ type: z.literal("reasoning"), text: z.string(), ...options }),
        z.object({
          type: z.literal("tool-call"),
          toolCallId: z.string(),
          toolName: z.string(),
          input: z.json(),
          providerExecuted: z.literal(true),
          ...options,
        }),
        z.object({
          type: z.literal("tool-result"),
          toolCallId: z.string(),
          toolName: z.string(),
          output: z.object({ type: z.literal("json"), value: z.json() }),
          ...options,
        }),
      ]),
    ),
  }),
);

/** A call's signature, and on the first call of an answer the signed thoughts before it. */
const Signatures = z.lazy(() =>
  z.object({
    by: z.string(),
    thoughts: z.array(z.object({ text: z.string(), meta: Meta })).optional(),
    meta: Meta.optional(),
  }),
);

/** The paused message, unchanged; undefined when it is not this model's. */
export function pausedMessage(opaque: string | undefined, by: string): AssistantContent | undefined {
  return ofModel(PausedMessage, opaque, by)?.parts;
}

/** The signatures of a call; undefined when they are not from this model: another one can't read them. */
export function signaturesOf({ opaque }: ToolCall, by: string): z.infer<typeof Signatures> | undefined {
  return ofModel(Signatures, opaque, by);
}

function ofModel<T extends { by: string }>(
  schema: z.ZodType<T>,
  opaque: string | undefined,
  by: string,
): T | undefined {
  if (opaque === undefined) return undefined;
  try {
    const { data } = schema.safeParse(JSON.parse(opaque));
    return data?.by === by ? data : undefined;
  } catch {
    // Another driver's text may be anything.
    return undefined;
  }
}

/** Maximum events read ahead of the consumer. */
const MAX_BUFFERED = 256;
/** Maximum characters of one event. */
const MAX_CHARS = 16 * 1024;

/**
 * The same events, with the text deltas of one burst joined: each event costs a read, and a line to every watcher of
 * the run. Deltas that arrive one by one stay apart.
 */
export async function* coalesced(events: AsyncIterable<LLMEvent>): AsyncGenerator<LLMEvent> {
  const buffer = new ReadAhead(events);
  try {
    for (let event = await buffer.take(); event !== undefined; event = await buffer.take()) yield event;
  } finally {
    buffer.stop();
  }
}

class ReadAhead {
  readonly #events: AsyncIterator<LLMEvent>;
  readonly #buffered: LLMEvent[] = [];
  #ended: { error?: unknown } | undefined;
  #hasText = false;
  #wakeConsumer: (() => void) | undefined;
  #wakeProducer: (() => void) | undefined;

  constructor(events: AsyncIterable<LLMEvent>) {
    this.#events = events[Symbol.asyncIterator]();
    void this.#readAhead();
  }

  /** The next event; undefined at the end. Throws the error that ended them. */
  async take(): Promise<LLMEvent | undefined> {
    while (this.#buffered.length === 0 && this.#ended === undefined) {
      await new Promise<void>((resolve) => {
        this.#wakeConsumer = resolve;
      });
    }
    // The rest of a burst is there one turn of the event loop later. The first text does not wait for it.
    if (this.#hasText && this.#ended === undefined && isText(this.#buffered[0])) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    const event = this.#buffered.shift();
    this.#hasText ||= isText(event) && event.text !== "";
    this.#wakeProducer?.();
    if (event === undefined && this.#ended?.error !== undefined) throw this.#ended.error;
    return event;
  }

  stop(): void {
    this.#ended ??= {};
    this.#wakeProducer?.();
    // A consumer that has stopped is not interested in a late failure.
    this.#events.return?.().catch(() => undefined);
  }

  async #readAhead(): Promise<void> {
    try {
      for (;;) {
        const { done, value } = await this.#events.next();
        if (done === true || this.#ended !== undefined) break;
        this.#add(value);
        if (this.#buffered.length >= MAX_BUFFERED) await this.#untilSpace();
      }
      this.#ended ??= {};
    } catch (error) {
      this.#ended ??= { error };
    }
    this.#wakeConsumer?.();
  }

  async #untilSpace(): Promise<void> {
    while (this.#buffered.length >= MAX_BUFFERED && this.#ended === undefined) {
      await new Promise<void>((resolve) => {
        this.#wakeProducer = resolve;
      });
    }
  }

  #add(event: LLMEvent): void {
    const last = this.#buffered.at(-1);
    if (isText(last) && isText(event) && event.type === last.type && fitsInto(last, event))
      last.text += event.text;
    else this.#buffered.push(isText(event) ? { ...event } : event);
    this.#wakeConsumer?.();
  }
}

type DeltaEvent = Extract<LLMEvent, { type: "text_delta" | "reasoning_delta" }>;

function isText(event: LLMEvent | undefined): event is DeltaEvent {
  return event?.type === "text_delta" || event?.type === "reasoning_delta";
}

function fitsInto(last: DeltaEvent, next: DeltaEvent): boolean {
  return last.text.length + next.text.length <= MAX_CHARS;
}

/** Bytes arrived that complete no part: a keep-alive comment, a piece of a long line. */
export const ALIVE = Symbol("alive");

type Pending<T> = PromiseWithResolvers<T | typeof ALIVE | undefined>;

/**
 * The parts of an answer, and ALIVE between them while bytes arrive. A working server may send no part for minutes, and
 * a provider package does not report the comments that it skips.
 */
export class Heartbeat<T> {
  readonly #readPart: () => Promise<T | undefined>;
  #pending: Pending<T> | undefined;
  #isReading = false;
  /** A result that arrived while no call of `next` was pending. */
  #arrived: ((pending: Pending<T>) => void) | undefined;
  #isChecking = false;

  /** `readPart` gives the next part, undefined at the end. It is called for one part at a time. */
  constructor(readPart: () => Promise<T | undefined>) {
    this.#readPart = readPart;
  }

  /** The next part, or ALIVE; undefined at the end. One call at a time. */
  next(): Promise<T | typeof ALIVE | undefined> {
    const pending: Pending<T> = Promise.withResolvers();
    const arrived = this.#arrived;
    this.#arrived = undefined;
    if (arrived !== undefined) {
      arrived(pending);
      return pending.promise;
    }
    this.#pending = pending;
    if (!this.#isReading) this.#read();
    return pending.promise;
  }

  /** Bytes have arrived. If they complete no part by the next turn of the event loop, the pending call gets ALIVE. */
  onBytes(): void {
    const pending = this.#pending;
    if (this.#isChecking || pending === undefined) return;
    this.#isChecking = true;
    setImmediate(() => {
      this.#isChecking = false;
      if (pending !== this.#pending) return;
      this.#pending = undefined;
      pending.resolve(ALIVE);
    });
  }

  #read(): void {
    this.#isReading = true;
    this.#readPart().then(
      (part) => this.#settle((pending) => pending.resolve(part)),
      (error: unknown) => this.#settle((pending) => pending.reject(error)),
    );
  }

  #settle(settle: (pending: Pending<T>) => void): void {
    this.#isReading = false;
    const pending = this.#pending;
    this.#pending = undefined;
    if (pending === undefined) this.#arrived = settle;
    else settle(pending);
  }
}
