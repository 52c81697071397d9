/** The messages of a request in the form of the provider packages, and what a model signed, or paused at, and gets back. */

import type {
  JSONSchema7,
  JSONValue,
  LanguageModelV4CallOptions,
  LanguageModelV4Content,
  LanguageModelV4FilePart,
  LanguageModelV4Message,
  LanguageModelV4StreamPart,
  SharedV4ProviderMetadata,
} from "@ai-sdk/provider";
import { type LLMMessage, type LLMRequest, SyscallError, type ToolCall } from "rnix/plugin";
import { z } from "zod";

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

type AssistantContent = Extract<LanguageModelV4Message, { role: "assistant" }>["content"];

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
  if (toolName === undefined)
    throw new SyscallError(
      "INVALID",
      `a tool's result must answer an earlier call; there is no call with id "${id}"`,
    );
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

const Options = z.lazy(() => z.record(z.string(), z.record(z.string(), z.json())));
const options = { providerOptions: Options.optional() };

/** Parts of an assistant's message in the form of the provider packages, in their order. */
const Part = z.lazy(() =>
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
);

/** `by`: the model they are from. Another model is sent only the text. */
const PausedMessage = z.lazy(() => z.object({ by: z.string(), parts: z.array(Part) }));

type Assistant = Extract<LanguageModelV4Message, { role: "assistant" }>["content"];
type TextPart = Extract<Assistant[number], { type: "text" | "reasoning" }>;

/**
 * Collects all parts of an answer, with tools that its provider runs. A model that pauses in the middle of its turn
 * continues only from its own unchanged message.
 */
export class AssistantParts {
  readonly #parts: Assistant = [];
  readonly #open = new Map<string, TextPart>();

  /** Adds a part of a streamed answer. */
  addDelta(part: LanguageModelV4StreamPart): void {
    switch (part.type) {
      case "text-start":
      case "text-delta":
      case "text-end":
        this.#append("text", part.id, part.type === "text-delta" ? part.delta : "", part.providerMetadata);
        break;
      case "reasoning-start":
      case "reasoning-delta":
      case "reasoning-end":
        this.#append(
          "reasoning",
          part.id,
          part.type === "reasoning-delta" ? part.delta : "",
          part.providerMetadata,
        );
        break;
      case "tool-call":
      case "tool-result":
        this.add(part);
    }
  }

  /** Adds a complete part. */
  add(part: LanguageModelV4Content): void {
    switch (part.type) {
      case "text":
      case "reasoning":
        this.#parts.push({ type: part.type, text: part.text, ...optionsOf(part.providerMetadata) });
        break;
      case "tool-call": {
        const { toolCallId, toolName, providerExecuted, providerMetadata } = part;
        if (providerExecuted !== true) return;
        const input = inputOf(part.input);
        const call = { type: "tool-call", toolCallId, toolName, input, providerExecuted } as const;
        this.#parts.push({ ...call, ...optionsOf(providerMetadata) });
        break;
      }
      case "tool-result": {
        const { toolCallId, toolName, result, providerMetadata } = part;
        const output = { type: "json", value: result } as const;
        this.#parts.push({
          type: "tool-result",
          toolCallId,
          toolName,
          output,
          ...optionsOf(providerMetadata),
        });
      }
    }
  }

  /** The message as text to keep; undefined for an empty one. */
  serialize(by: string): string | undefined {
    const parts = this.#parts.filter((part) => part.type !== "text" || part.text !== "");
    return parts.length === 0 ? undefined : JSON.stringify({ by, parts });
  }

  #append(
    type: TextPart["type"],
    id: string,
    text: string,
    metadata: SharedV4ProviderMetadata | undefined,
  ): void {
    const part = this.#open.get(`${type} ${id}`) ?? this.#begin(type, id);
    part.text += text;
    if (metadata !== undefined) part.providerOptions = merged(part.providerOptions, metadata);
  }

  #begin(type: TextPart["type"], id: string): TextPart {
    const part: TextPart = { type, text: "" };
    this.#open.set(`${type} ${id}`, part);
    this.#parts.push(part);
    return part;
  }
}

/** The paused message, unchanged; undefined when it is not this model's. */
function pausedMessage(opaque: string | undefined, by: string): Assistant | undefined {
  if (opaque === undefined) return undefined;
  try {
    const { data } = PausedMessage.safeParse(JSON.parse(opaque));
    return data?.by === by ? data.parts : undefined;
  } catch {
    // Another driver's text may be anything.
    return undefined;
  }
}

function optionsOf(metadata: SharedV4ProviderMetadata | undefined): Pick<TextPart, "providerOptions"> {
  return metadata === undefined ? {} : { providerOptions: merged(undefined, metadata) };
}

function inputOf(text: string): JSONValue {
  try {
    const value: JSONValue = JSON.parse(text);
    return value;
  } catch {
    return text;
  }
}

/** Sent back to the provider with a call: its signatures of the call and of the thoughts before it. */
interface Signatures {
  /** The model that signed: another one cannot read this, and may refuse it. */
  by: string;
  /** The thoughts before it, on the first call of an answer. */
  thoughts?: Thought[];
  meta?: SharedV4ProviderMetadata;
}

interface Thought {
  text: string;
  meta: SharedV4ProviderMetadata;
}

/** Collects the signatures of an answer, streamed or in one piece. */
export class ReasoningSignatures {
  readonly #by: string;
  readonly #thoughts: { text: string; meta?: SharedV4ProviderMetadata }[] = [];
  readonly #open = new Map<string, { text: string; meta?: SharedV4ProviderMetadata }>();
  readonly #calls = new Map<string, SharedV4ProviderMetadata>();

  constructor(by: string) {
    this.#by = by;
  }

  /** Adds text, a signature or both to the thought `id`. */
  addDelta(id: string, text: string, meta: SharedV4ProviderMetadata | undefined): void {
    let thought = this.#open.get(id);
    if (thought === undefined) {
      thought = { text: "" };
      this.#open.set(id, thought);
      this.#thoughts.push(thought);
    }
    thought.text += text;
    if (meta !== undefined) thought.meta = merged(thought.meta, meta);
  }

  /** Adds a complete thought. */
  add(text: string, meta: SharedV4ProviderMetadata | undefined): void {
    this.#thoughts.push({ text, meta });
  }

  call(id: string, meta: SharedV4ProviderMetadata | undefined): void {
    if (meta !== undefined) this.#calls.set(id, meta);
  }

  /** The calls with their signatures. Thoughts without a signature are left out. */
  signed(calls: ToolCall[]): ToolCall[] {
    const thoughts = this.#thoughts.flatMap(({ text, meta }) => (meta === undefined ? [] : { text, meta }));
    return calls.map((call, index) => {
      const meta = this.#calls.get(call.id);
      const first = index === 0 && thoughts.length > 0;
      if (meta === undefined && !first) return call;
      const signatures: Signatures = { by: this.#by, ...(first && { thoughts }), ...(meta && { meta }) };
      return { ...call, opaque: JSON.stringify(signatures) };
    });
  }
}

/** The signatures that `signed` added; undefined when they are not from this model. */
export function signaturesOf({ opaque }: ToolCall, by: string): Signatures | undefined {
  if (opaque === undefined) return undefined;
  try {
    const { data } = SignaturesSchema.safeParse(JSON.parse(opaque));
    return data?.by === by ? data : undefined;
  } catch {
    // Another driver's text may be anything.
    return undefined;
  }
}

const Meta = z.lazy(() => z.record(z.string(), z.record(z.string(), z.json())));
const SignaturesSchema = z.lazy(() =>
  z.object({
    by: z.string(),
    thoughts: z.array(z.object({ text: z.string(), meta: Meta })).optional(),
    meta: Meta.optional(),
  }),
);

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
