import type {
  JSONValue,
  LanguageModelV4Content,
  LanguageModelV4Message,
  LanguageModelV4StreamPart,
  SharedV4ProviderMetadata,
} from "@ai-sdk/provider";
import { z } from "zod";
import { merged } from "./reasoning-signature.ts";

const Options = z.lazy(() => z.record(z.string(), z.record(z.string(), z.json())));
const options = { providerOptions: Options.optional() };

/** Parts of an assistant's message as the provider packages take them, in the order in which they came. */
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

/** `by`: whose they are. Another model is shown the text alone. */
const Pause = z.lazy(() => z.object({ by: z.string(), parts: z.array(Part) }));

type Assistant = Extract<LanguageModelV4Message, { role: "assistant" }>["content"];
type Words = Extract<Assistant[number], { type: "text" | "reasoning" }>;

/**
 * Collects an answer whole, tools that its provider runs included, for a model that pauses in the middle of its turn: it
 * goes on only from its own message as it was.
 */
export class Whole {
  readonly #parts: Assistant = [];
  readonly #open = new Map<string, Words>();

  /** A piece of a streamed answer. */
  piece(part: LanguageModelV4StreamPart): void {
    switch (part.type) {
      case "text-start":
      case "text-delta":
      case "text-end":
        this.#grow("text", part.id, part.type === "text-delta" ? part.delta : "", part.providerMetadata);
        break;
      case "reasoning-start":
      case "reasoning-delta":
      case "reasoning-end":
        this.#grow(
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

  /** A part that came whole. */
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

  /** What is to be handed back; undefined where there is nothing. */
  pause(by: string): string | undefined {
    const parts = this.#parts.filter((part) => part.type !== "text" || part.text !== "");
    return parts.length === 0 ? undefined : JSON.stringify({ by, parts });
  }

  #grow(type: Words["type"], id: string, text: string, metadata: SharedV4ProviderMetadata | undefined): void {
    const part = this.#open.get(`${type} ${id}`) ?? this.#begin(type, id);
    part.text += text;
    if (metadata !== undefined) part.providerOptions = merged(part.providerOptions, metadata);
  }

  #begin(type: Words["type"], id: string): Words {
    const part: Words = { type, text: "" };
    this.#open.set(`${type} ${id}`, part);
    this.#parts.push(part);
    return part;
  }
}

/** The paused message as it was; undefined where it is not this model's. */
export function pausedBy(opaque: string | undefined, by: string): Assistant | undefined {
  if (opaque === undefined) return undefined;
  try {
    const { data } = Pause.safeParse(JSON.parse(opaque));
    return data?.by === by ? data.parts : undefined;
  } catch {
    // Another driver's, which may be anything.
    return undefined;
  }
}

function optionsOf(metadata: SharedV4ProviderMetadata | undefined): Pick<Words, "providerOptions"> {
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
