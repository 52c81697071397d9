/** The conversations of live processes, by context id, and the messages that Rnix makes for them. */

import { framed } from "../../plugin/frame.ts";
import { type ImageRef, type Message, SyscallError } from "../../plugin/index.ts";
import { Message as MessageSchema } from "../../run/message.ts";
import type { RunWriter } from "../../store/runs/run-store.ts";
import type { ProcInfo, ToolCallRecord } from "../../store/runs/schema.ts";
import type { AttachedImage } from "../types.ts";

export type CtxID = number;

/** The default capacity of CtxAlloc, in messages (seeds 1.3). */
const DEFAULT_CTX_SIZE = 64;

/** Characters of a message in a summary or an error. */
const SHOWN = 120;

export interface Prompt {
  systemPrompt: string;
  messages: readonly Message[];
}

interface Context {
  systemPrompt: string;
  messages: Message[];
  maxSize: number;
}

/**
 * The conversations of all processes (seeds 4). A context belongs to the process that allocated it and is freed at its
 * reap. Threads share it: every method is synchronous, so appends cannot interleave.
 */
export class Conversations {
  readonly #contexts = new Map<CtxID, Context>();
  #next = 1;

  /** `size` is the capacity in messages; Infinity for a process's own context, which is bounded by tokens. */
  ctxAlloc(size: number = DEFAULT_CTX_SIZE): CtxID {
    if (!(size > 0)) throw new SyscallError("INTERNAL", `CtxAlloc: expected a size above 0, got ${size}.`);
    const id = this.#next++;
    this.#contexts.set(id, { systemPrompt: "", messages: [], maxSize: size });
    return id;
  }

  /** JSON of the system prompt and `length` messages from `offset` (0-based). 0 and 0: all of them. */
  ctxRead(id: CtxID, offset: number, length: number): string {
    const { systemPrompt, messages } = this.#get(id);
    const part = offset === 0 && length === 0 ? messages : messages.slice(offset, offset + length);
    return JSON.stringify({ system_prompt: systemPrompt, messages: part });
  }

  /** `offset` 0 appends the message in `data` (JSON), 1..N overwrites the offset-th. */
  ctxWrite(id: CtxID, offset: number, data: string): void {
    const context = this.#get(id);
    const message = parseMessage(data);
    if (offset === 0) {
      this.#append(context, [message]);
      return;
    }
    if (!Number.isInteger(offset) || offset < 1 || offset > context.messages.length) {
      const text = `CtxWrite: offset ${offset} is outside of 1..${context.messages.length} (0 appends).`;
      throw new SyscallError("INTERNAL", text);
    }
    context.messages[offset - 1] = message;
  }

  ctxFree(id: CtxID): void {
    this.#get(id);
    this.#contexts.delete(id);
  }

  setSystemPrompt(id: CtxID, prompt: string): void {
    this.#get(id).systemPrompt = prompt;
  }

  appendMessage(id: CtxID, message: Message): void {
    this.#append(this.#get(id), [message]);
  }

  /**
   * An assistant message and the results of all its calls, together or not at all: a provider refuses a
   * history in which a call has no answer.
   */
  appendTurn(id: CtxID, assistant: Message, results: readonly Message[]): void {
    const calls = assistant.tool_calls ?? [];
    const answered = new Set(results.map((result) => result.tool_call_id));
    const open = calls.filter((call) => !answered.has(call.id));
    if (open.length > 0 || results.length !== calls.length) {
      const text = `A turn of ${calls.length} calls came with ${results.length} results; unanswered: ${open.map((call) => call.id).join(", ") || "none"}.`;
      throw new SyscallError("INTERNAL", text);
    }
    this.#append(this.#get(id), [assistant, ...results]);
  }

  /** Puts what `change` makes of the messages in their place; at once, so that nothing is appended meanwhile. */
  rewrite(id: CtxID, change: (messages: readonly Message[]) => Message[]): void {
    const context = this.#get(id);
    context.messages = change(context.messages);
  }

  /** A snapshot: what is appended later does not show in it. */
  buildPrompt(id: CtxID): Prompt {
    const { systemPrompt, messages } = this.#get(id);
    return { systemPrompt, messages: messages.slice() };
  }

  /** For /proc/{pid}/context: one line per message, shortened. */
  summary(id: CtxID): string {
    const { systemPrompt, messages } = this.#get(id);
    const lines = messages.map((message, index) => {
      const calls = message.tool_calls?.map((call) => call.name).join(", ");
      return `${index + 1} ${message.role}: ${shortenText(message.content, SHOWN)}${calls ? ` [calls ${calls}]` : ""}`;
    });
    const head = `system prompt: ${systemPrompt.length} characters, ${messages.length} messages`;
    return [head, ...lines, ""].join("\n");
  }

  /** Contexts not yet freed. */
  get size(): number {
    return this.#contexts.size;
  }

  messageCount(id: CtxID): number {
    return this.#get(id).messages.length;
  }

  #get(id: CtxID): Context {
    const context = this.#contexts.get(id);
    if (!context) throw new SyscallError("NOT_FOUND", `Context ${id} does not exist or was freed.`);
    return context;
  }

  #append(context: Context, messages: readonly Message[]): void {
    if (context.messages.length + messages.length > context.maxSize) {
      const message = `The context is full: ${context.messages.length} of ${context.maxSize} messages, ${messages.length} more do not fit.`;
      throw new SyscallError("INTERNAL", message);
    }
    context.messages.push(...messages);
  }
}

function parseMessage(data: string): Message {
  try {
    return MessageSchema.parse(JSON.parse(data));
  } catch (cause) {
    const text = `CtxWrite: expected {"role": "system|user|assistant|tool", "content": "…"}, got ${shortenText(data, SHOWN)}`;
    throw new SyscallError("INTERNAL", text, { cause });
  }
}

/** The first message of a conversation: the intent, then the attached input, with the images. */
export function firstMessage(
  intent: string,
  input: string | null | undefined,
  images: readonly ImageRef[] = [],
): Message {
  const attached = input === null || input === undefined ? [] : [framed("input", input)];
  const content = [intent, ...attached].join("\n\n");
  return { role: "user", content, ...(images.length > 0 && { images: [...images] }) };
}

/** The first message of a recorded run before its first step; none of a chat, whose messages are all in its inbox. */
export function recordedFirst(
  { chat, intent }: Pick<ProcInfo, "chat" | "intent">,
  spawned: { input: string | null; images?: readonly ImageRef[] } | undefined,
): Message | undefined {
  return chat ? undefined : firstMessage(intent, spawned?.input, spawned?.images);
}

/** The tool message of a call. It is made from the record alone, so it can be rebuilt. */
export function toolMessage(record: ToolCallRecord): Message {
  const content =
    record.error === null
      ? (record.result ?? "")
      : `Error ${record.error_code}: ${record.error}${record.result ? `\n${record.result}` : ""}`;
  return { role: "tool", tool_call_id: record.id, content };
}

/** Stores attached images beside the run's record. One after the other, because they are large. */
export async function storeImages(
  record: RunWriter,
  images: readonly AttachedImage[] = [],
): Promise<ImageRef[]> {
  const stored: ImageRef[] = [];
  for (const { media_type, width, height, data } of images) {
    const name = `image.${media_type.slice("image/".length)}`;
    const { file, sha256, bytes } = await record.storeBlob(name, data);
    stored.push({ media_type, file, sha256, bytes, width, height });
  }
  return stored;
}

/** The beginning of a text, on one line. */
export function shortenText(text: string, chars: number): string {
  const beginning = text.slice(0, 4 * chars);
  const line = beginning.replace(/\s+/g, " ").trim();
  return line.length <= chars ? line : `${wellFormed(line.slice(0, chars - 1))}…`;
}

/** Removes half a surrogate pair at a cut, which some providers reject. */
export function wellFormed(text: string): string {
  return text.replace(/^[\uDC00-\uDFFF]|[\uD800-\uDBFF]$/g, "");
}
