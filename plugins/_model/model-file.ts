/** The model device: passes requests to a driver's model and returns its answers in pieces. */

import {
  type Data,
  EFFORTS,
  type FileStat,
  IMAGE_TYPES,
  type ListedModel,
  type LLMAnswer,
  type LLMEvent,
  type LLMRequest,
  type ModelList,
  type ModelListRequest,
  SyscallError,
  type VFSFile,
} from "rnix/plugin";
import { z } from "zod";
import { issueText } from "../_lib/issue-text.ts";
import { isObject } from "../_lib/json.ts";

/** How a model driver answers one request. Throws SyscallErrors, and never retries. */
export interface Model {
  answer(request: LLMRequest, signal: AbortSignal): Promise<LLMAnswer>;
  /** The models of its service. Absent: the driver can't tell. */
  list?(signal: AbortSignal): Promise<ListedModel[]>;
  /** Resolves when the answer begins. The last event is `stop`; an answer that breaks off throws. */
  stream(request: LLMRequest, signal: AbortSignal): Promise<AsyncIterable<LLMEvent>>;
}

export interface ModelFacts {
  name: string;
  devicePath: string;
  /** Known models; any other name may be requested too. */
  models: string[];
  /** What else `stat` reports: whether it passes on `effort`, takes `images`, calls tools by itself. */
  can?: { effort?: true; images?: true; runs_tools?: true; confined?: false };
}

/**
 * An open model device: each write is a request, and the reads after it return its answer. When streaming, each read
 * returns one `LLMEvent`, else the first read returns the `LLMAnswer`. What exceeds a read's `max` follows in the next
 * one. An empty read is the end. A new write cancels the answer before it.
 */
export class ModelFile implements VFSFile {
  readonly #model: Model;
  readonly #facts: ModelFacts;
  #answer: Answer | undefined;

  constructor(model: Model, facts: ModelFacts) {
    this.#model = model;
    this.#facts = facts;
  }

  async write(data: Data, signal: AbortSignal): Promise<void> {
    this.#answer?.end();
    const answer = new Answer();
    this.#answer = answer;
    const model = this.#model;
    if (model.list !== undefined && asksForModels(data)) {
      await answer.during(signal, async (ended) => {
        answer.documents = single({ models: (await model.list?.(ended)) ?? [] });
      });
      return;
    }
    const request = parseRequest(data);
    await answer.during(signal, async (ended) => {
      if (request.stream === true) answer.documents = documents(await this.#model.stream(request, ended));
      else answer.documents = single(await this.#model.answer(request, ended));
    });
  }

  async read(max: number, signal: AbortSignal): Promise<Data> {
    const answer = this.#answer;
    if (answer === undefined)
      throw new SyscallError("INVALID", `write a request to ${this.#facts.devicePath} before reading`);
    if (answer.rest === "") answer.rest = await answer.during(signal, () => answer.next());
    const piece = answer.rest.slice(0, max);
    answer.rest = answer.rest.slice(piece.length);
    return piece;
  }

  async close(): Promise<void> {
    this.#answer?.end();
  }

  async stat(): Promise<FileStat> {
    const { name, devicePath, models, can } = this.#facts;
    return {
      name,
      size: 0,
      isDevice: true,
      devicePath,
      models,
      streams: true,
      tools: true,
      confined: true,
      ...can,
    };
  }
}

/** An answer in progress; owns the request behind it. */
class Answer {
  documents: AsyncIterator<string> = nothing();
  /** What exceeded the last read. */
  rest = "";
  readonly #controller = new AbortController();
  /** Rejects the current read or write; there is one at a time. */
  #reject: (reason: unknown) => void = () => undefined;
  #signal: AbortSignal | undefined;
  readonly #onAbort = () => this.#reject(cancelled(this.#signal?.reason));

  async next(): Promise<string> {
    const { done, value } = await this.documents.next();
    return done === true ? "" : value;
  }

  end(): void {
    this.#listenTo(undefined);
    this.documents = nothing();
    this.#controller.abort(new SyscallError("CANCELLED", "the model's answer was cancelled"));
  }

  /** Does one part of the work under a call's signal. A failure or an abort ends the answer and its request. */
  async during<T>(signal: AbortSignal, work: (ended: AbortSignal) => Promise<T>): Promise<T> {
    try {
      if (signal.aborted) throw cancelled(signal.reason);
      this.#listenTo(signal);
      const aborted = Promise.withResolvers<never>();
      this.#reject = aborted.reject;
      return await Promise.race([work(this.#controller.signal), aborted.promise]);
    } catch (error) {
      this.end();
      throw error;
    }
  }

  /** All calls of one answer have the same signal: it gets one listener, not one for each piece. */
  #listenTo(signal: AbortSignal | undefined): void {
    if (signal === this.#signal) return;
    this.#signal?.removeEventListener("abort", this.#onAbort);
    this.#signal = signal;
    signal?.addEventListener("abort", this.#onAbort, { once: true });
  }
}

/** The reason of a signal as an error: the kernel's own, or CANCELLED. */
function cancelled(reason: unknown): SyscallError {
  if (reason instanceof SyscallError) return reason;
  return new SyscallError("CANCELLED", "The call was cancelled.", { cause: reason });
}

async function* documents(events: AsyncIterable<LLMEvent>): AsyncGenerator<string> {
  for await (const event of events) yield JSON.stringify(event);
}

async function* single(answer: LLMAnswer | ModelList): AsyncGenerator<string> {
  yield JSON.stringify(answer);
}

async function* nothing(): AsyncGenerator<string> {}

/** Parses the request that a process has written. Fails with INVALID, which names the wrong part. */
function parseRequest(data: Data): LLMRequest {
  const text = typeof data === "string" ? data : new TextDecoder().decode(data);
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    const message = `a model device takes one request as JSON, not ${JSON.stringify(text.slice(0, 80))}`;
    throw new SyscallError("INVALID", message, { cause });
  }
  // The kernel's own requests are complete. The schema fills in defaults and explains, but is slow.
  if (isRequest(json)) return json;
  const result = Request.safeParse(json);
  if (result.success) return result.data;
  const message = `a model device takes {intent, system_prompt, model, messages, …}: ${issueText(result.error)}`;
  throw new SyscallError("INVALID", message, { cause: result.error });
}

const LIST: ModelListRequest = { op: "models" };
const LIST_TEXT = JSON.stringify(LIST);

/** Whether the service's list of models is asked for, and no answer. */
function asksForModels(data: Data): boolean {
  return (
    data.length === LIST_TEXT.length &&
    (typeof data === "string" ? data : new TextDecoder().decode(data)) === LIST_TEXT
  );
}

function isRequest(value: unknown): value is LLMRequest {
  return (
    isObject(value) &&
    typeof value.intent === "string" &&
    typeof value.system_prompt === "string" &&
    typeof value.model === "string" &&
    value.model !== "" &&
    Array.isArray(value.messages) &&
    value.messages.every(isMessage) &&
    (value.tools === undefined || (Array.isArray(value.tools) && value.tools.every(isTool))) &&
    (value.max_turns === undefined || typeof value.max_turns === "number") &&
    (value.timeout_ms === undefined || typeof value.timeout_ms === "number") &&
    (value.turn === undefined || value.turn === null || typeof value.turn === "number") &&
    (value.max_output === undefined ||
      (Number.isInteger(value.max_output) && Number(value.max_output) > 0)) &&
    (value.stream === undefined || typeof value.stream === "boolean") &&
    (value.effort === undefined || EFFORTS.some((effort) => effort === value.effort)) &&
    (value.output_schema === undefined || isObject(value.output_schema))
  );
}

function isMessage(value: unknown): boolean {
  return (
    isObject(value) &&
    ROLE_NAMES.has(value.role) &&
    typeof value.content === "string" &&
    (value.tool_call_id === undefined || typeof value.tool_call_id === "string") &&
    (value.opaque === undefined || typeof value.opaque === "string") &&
    (value.tool_calls === undefined ||
      (Array.isArray(value.tool_calls) && value.tool_calls.every(isToolCall))) &&
    (value.images === undefined || (Array.isArray(value.images) && value.images.every(isImage)))
  );
}

function isToolCall(value: unknown): boolean {
  return (
    isObject(value) &&
    typeof value.id === "string" &&
    typeof value.name === "string" &&
    isObject(value.input) &&
    value.invalid === undefined &&
    (value.opaque === undefined || typeof value.opaque === "string")
  );
}

function isImage(value: unknown): boolean {
  return (
    isObject(value) && IMAGE_TYPES.some((type) => type === value.media_type) && typeof value.data === "string"
  );
}

function isTool(value: unknown): boolean {
  return (
    isObject(value) &&
    typeof value.name === "string" &&
    typeof value.description === "string" &&
    isObject(value.input)
  );
}

const ROLES = ["system", "user", "assistant", "tool"] as const;
const ROLE_NAMES: ReadonlySet<unknown> = new Set(ROLES);

const ToolCall = z.object({
  id: z.string(),
  name: z.string(),
  input: z.record(z.string(), z.unknown()),
  invalid: z.object({ text: z.string(), reason: z.string() }).optional(),
  opaque: z.string().optional(),
});

const Message = z.lazy(() =>
  z.object({
    role: z.enum(ROLES),
    content: z.string(),
    tool_call_id: z.string().optional(),
    tool_calls: z.array(ToolCall).optional(),
    opaque: z.string().optional(),
    images: z.array(z.object({ media_type: z.enum(IMAGE_TYPES), data: z.base64() })).optional(),
  }),
);

const Request = z.lazy(() =>
  z.object({
    intent: z.string().default(""),
    system_prompt: z.string().default(""),
    model: z.string().min(1),
    max_turns: z.number().optional(),
    timeout_ms: z.number().optional(),
    turn: z.number().int().nonnegative().nullable().optional(),
    messages: z.array(Message).default([]),
    tools: z
      .array(
        z.object({ name: z.string(), description: z.string(), input: z.record(z.string(), z.unknown()) }),
      )
      .optional(),
    max_output: z.number().int().positive().optional(),
    stream: z.boolean().optional(),
    effort: z.enum(EFFORTS).optional(),
    output_schema: z.record(z.string(), z.unknown()).optional(),
  }),
);
