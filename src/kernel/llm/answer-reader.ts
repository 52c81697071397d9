/** Reads the answer of a model device: its schema, its events, and whether it is complete. */

import { z } from "zod";
import { Abort, type Cancellation, type Clock, onceAborted, orAborted, type Timer } from "../../lib/clock.ts";
import { issueText } from "../../lib/issue-text.ts";
import {
  CODES,
  type LLMAnswer,
  type LLMEvent,
  SyscallError,
  type ToolCall,
  type Usage,
} from "../../plugin/index.ts";
import { ToolCall as ToolCallSchema, Usage as UsageSchema } from "../../run/message.ts";
import { addUsage, noUsage } from "../../run/usage.ts";
import { estimateRequest, estimateTokens } from "../budget/tokens.ts";
import { Secrets } from "../process/secrets.ts";
import { type ModelDevice, type ModelRequest, writtenRequest } from "./model-device.ts";

/** Sends one model request, as often as `read` is called, and reads the answer as events or as one document. */
export class AnswerReader {
  /** Whether the request asks for a stream. */
  readonly streams: boolean;
  readonly #device: ModelDevice;
  /** Serialized only when it is sent, because thousands of requests may wait. */
  readonly #request: ModelRequest;
  readonly #onEvent: (event: LLMEvent) => void;
  /** The sum of what finished and failed attempts have reported. */
  readonly #usage = noUsage();

  constructor(device: ModelDevice, request: ModelRequest, onEvent: (event: LLMEvent) => void) {
    this.#device = device;
    this.streams = request.stream === true;
    this.#request = request;
    this.#onEvent = onEvent;
  }

  /**
   * Resolves to a complete answer that is not empty. Fails with UNAVAILABLE if the answer broke off, and with DRIVER
   * if it is empty or malformed. Does not wait for a device that ignores the signal.
   */
  async read(watch: IdleTimeout): Promise<LLMAnswer> {
    await orAborted(this.#write(watch.signal), watch.signal);
    watch.touch();
    const answer = normalized(this.streams ? await this.#readEvents(watch) : await this.#readWhole(watch));
    requireContent(answer);
    const spent = { ...this.#usage };
    const usage = spent.input_tokens + spent.output_tokens > 0 ? spent : this.#estimateUsage(answer);
    const tokens_used = usage.input_tokens + usage.output_tokens;
    return { ...answer, tool_calls: withUniqueIds(answer.tool_calls), usage, tokens_used };
  }

  async #write(signal: AbortSignal): Promise<void> {
    await this.#device.write(await writtenRequest(this.#request, this.#device, signal), signal);
  }

  async #readWhole(watch: IdleTimeout): Promise<LLMAnswer> {
    const document = await this.#readDocument(watch);
    if (document === undefined) throw brokenOff();
    const { limits, ...answer } = answerOf(this.#redacted(document));
    if (limits !== undefined) this.#onEvent({ type: "limits", limits });
    addUsage(this.#usage, answer.usage);
    return { ...answer, tokens_used: 0 };
  }

  async #readEvents(watch: IdleTimeout): Promise<LLMAnswer> {
    const answer = { content: "", reasoning: "", tool_calls: [] as ToolCall[], usage: noUsage() };
    const { secrets = new Secrets() } = this.#device;
    const redactors = { text_delta: secrets.stream(), reasoning_delta: secrets.stream() };
    const add = (type: "text_delta" | "reasoning_delta", text: string): void => {
      if (text === "") return;
      answer[type === "text_delta" ? "content" : "reasoning"] += text;
      this.#onEvent({ type, text });
    };
    const addRest = (): void => {
      add("reasoning_delta", redactors.reasoning_delta.end());
      add("text_delta", redactors.text_delta.end());
    };
    let stop: Pick<LLMAnswer, "stop_reason" | "stop_word" | "opaque"> = { stop_reason: "unknown" };
    let length = 0;
    try {
      for (;;) {
        const document = await this.#readDocument(watch);
        watch.touch();
        if (document === undefined) break;
        length += document.length;
        if (length > MAX_ANSWER_CHARS) throw tooLong();
        const raw = eventOf(document);
        if (raw.type === "text_delta" || raw.type === "reasoning_delta") {
          add(raw.type, redactors[raw.type].push(raw.text));
          continue;
        }
        const redacted = this.#redacted(document);
        const event = redacted === document ? raw : eventOf(redacted);
        if (event.type === "tool_call") answer.tool_calls.push(event.call);
        else if (event.type === "turn") length = 0;
        else if (event.type === "usage") answer.usage = event.usage;
        else if (event.type === "stop") {
          // What has cut an answer is not undone by a later end.
          const { reason, word, opaque } = event;
          const more = {
            ...(word !== undefined && { stop_word: word }),
            ...(opaque !== undefined && { opaque }),
          };
          if (!CUTS.has(stop.stop_reason)) stop = { stop_reason: reason, ...more };
          addRest();
        } else if (event.type === "error") throw errorOf(event);
        this.#onEvent(event);
      }
      addRest();
    } finally {
      addUsage(this.#usage, answer.usage);
    }
    const { reasoning, ...rest } = answer;
    return { ...rest, ...(reasoning === "" ? {} : { reasoning }), ...stop, tokens_used: 0 };
  }

  /**
   * Returns the next JSON document, or undefined at the end. A document longer than one read comes in several pieces,
   * all but the last of full length. The beginning of a JSON object is never valid JSON itself.
   */
  async #readDocument(watch: IdleTimeout): Promise<string | undefined> {
    const decoder = new TextDecoder();
    let text = "";
    for (;;) {
      // An event may have ended the answer. The device must then be free for the next request.
      watch.signal.throwIfAborted();
      const piece = await orAborted(this.#device.read(READ_MAX, watch.signal), watch.signal);
      if (piece.length === 0) return text === "" ? undefined : text;
      text += typeof piece === "string" ? piece : decoder.decode(piece, { stream: true });
      if (piece.length < READ_MAX || isJson(text)) return text;
      if (text.length > MAX_ANSWER_CHARS) throw tooLong();
      watch.touch();
    }
  }

  #redacted(document: string): string {
    return this.#device.secrets?.hide(document) ?? document;
  }

  /** Used when the server reports no usage, which would otherwise escape every budget. */
  #estimateUsage(answer: LLMAnswer): Usage {
    const calls = answer.tool_calls.length === 0 ? "" : JSON.stringify(answer.tool_calls);
    return {
      input_tokens: estimateRequest(this.#request),
      output_tokens: estimateTokens(answer.content + (answer.reasoning ?? "") + calls),
      cached_tokens: 0,
    };
  }
}

/** The answer is not whole. */
const CUTS: ReadonlySet<string> = new Set(["max_tokens", "refusal", "other"]);
const READ_MAX = 1024 * 1024;
/** Characters of one answer, including its events. No model writes as much, but a broken server may. */
const MAX_ANSWER_CHARS = 16 * 1024 * 1024;

function tooLong(): SyscallError {
  return new SyscallError("DRIVER", `the model's answer is longer than ${MAX_ANSWER_CHARS} characters`, {
    retryable: false,
  });
}

function errorOf(event: Extract<LLMEvent, { type: "error" }>): SyscallError {
  const { code, message, retry_after_ms: retryAfterMs, retryable, too_long: tooLong } = event;
  return new SyscallError(code, message, { retryAfterMs, retryable, tooLong });
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Characters of a provider's stop word that are shown. */
const MAX_STOP_WORD_CHARS = 80;

/** Drops the tool calls of an answer that was refused or ended irregularly, and truncates the provider's stop word. */
function normalized({ stop_word, opaque, ...answer }: LLMAnswer): LLMAnswer {
  const { stop_reason, tool_calls } = answer;
  const stopped = stop_reason === "refusal" || stop_reason === "other";
  const pauses = stop_reason === "paused" && tool_calls.length === 0;
  return {
    ...answer,
    ...(stopped && { tool_calls: [] }),
    ...(stop_reason === "paused" && !pauses && { stop_reason: "tool_calls" }),
    ...(pauses && opaque !== undefined && { opaque }),
    ...(stop_word !== undefined && { stop_word: stop_word.slice(0, MAX_STOP_WORD_CHARS) }),
  };
}

/** Fails if the answer broke off or is empty: no part of such an answer is acted on. */
function requireContent(answer: LLMAnswer): void {
  const { stop_reason: reason, stop_word: word, opaque } = answer;
  if (reason === "unknown") throw brokenOff(word);
  const silent = answer.content.trim() === "" && opaque === undefined;
  if (answer.tool_calls.length > 0 || (!silent && reason !== "tool_calls")) return;
  const named = word === undefined ? "" : ` (${JSON.stringify(word)})`;
  if (reason === "refusal")
    throw unusable(`refused to answer and gave no reason${named}. Change the request, or use another model`);
  if (reason === "max_tokens") throw unusable(`used its whole output limit without an answer${named}`);
  const got = silent ? "an empty answer" : "an answer that announces tool calls and has none";
  const why =
    reason === "other" ? `, which it ended with ${JSON.stringify(word)}` : "; expected text or tool calls";
  throw unusable(`gave ${got}${why}`, { retryable: true });
}

function unusable(what: string, { retryable = false } = {}): SyscallError {
  return new SyscallError("DRIVER", `the model ${what}`, { retryable });
}

function brokenOff(word?: string): SyscallError {
  const named = word ? ` (${JSON.stringify(word)})` : "";
  const message = `the model's answer broke off before its end${named}`;
  return new SyscallError("UNAVAILABLE", message, { retryable: true });
}

/** Gives each call a unique id. With duplicate or empty ids the results would be mixed up or refused. */
function withUniqueIds(calls: ToolCall[]): ToolCall[] {
  const taken = new Set<string>();
  return calls.map((call, index) => {
    const id = call.id === "" || taken.has(call.id) ? `${call.id || "call"}-${index + 1}` : call.id;
    taken.add(id);
    return id === call.id ? call : { ...call, id };
  });
}

const RateLimit = z.lazy(() =>
  z.object({
    limit: z.number().nonnegative().optional(),
    remaining: z.number().optional(),
    reset_ms: z.number().optional(),
  }),
);
const RateLimits = z.lazy(() => z.object({ requests: RateLimit.optional(), tokens: RateLimit.optional() }));
const Stop = z.enum(["end_turn", "tool_calls", "max_tokens", "refusal", "paused", "other", "unknown"]);

const ReportedUsage = z.lazy(() => UsageSchema.transform(sanitizedUsage));

/** Tool calls, stop reason and usage are optional: the smallest driver answers `{content, tokens_used}`. */
const Answer = z.lazy(() =>
  z.object({
    content: z.string(),
    reasoning: z.string().optional(),
    tool_calls: z.array(ToolCallSchema).default([]),
    stop_reason: Stop.default("end_turn"),
    stop_word: z.string().optional(),
    opaque: z.string().optional(),
    usage: ReportedUsage.optional(),
    tokens_used: z.number().optional(),
    limits: RateLimits.optional(),
  }),
);

/**
 * Makes a provider's usage safe to add up: no count is negative, so no call refunds a budget. If more tokens were
 * read from the cache than there was input, the provider counts the two separately, and they are added.
 */
function sanitizedUsage(usage: Usage): Usage {
  const { cache_write_tokens: written, cost_usd } = usage;
  const reported = tokenCount(usage.input_tokens);
  const cached = tokenCount(usage.cached_tokens);
  const input = cached > reported ? reported + cached : reported;
  return {
    input_tokens: input,
    output_tokens: tokenCount(usage.output_tokens),
    cached_tokens: cached,
    ...(written !== undefined && { cache_write_tokens: Math.min(tokenCount(written), input - cached) }),
    ...(cost_usd !== undefined && cost_usd >= 0 && { cost_usd }),
  };
}

function tokenCount(reported: number): number {
  return Math.min(MAX_TOKENS, Math.max(0, Math.round(reported)));
}

/** Tokens of one answer. Far more than any model takes, and small enough to be added without loss. */
const MAX_TOKENS = 1e9;

/** The schema of each event type, built when the first event of that type arrives: a short answer has two types. */
const EVENTS = {
  text_delta: z.lazy(() => z.object({ type: z.literal("text_delta"), text: z.string() })),
  reasoning_delta: z.lazy(() => z.object({ type: z.literal("reasoning_delta"), text: z.string() })),
  tool_call: z.lazy(() => z.object({ type: z.literal("tool_call"), call: ToolCallSchema })),
  turn: z.lazy(() => z.object({ type: z.literal("turn") })),
  usage: z.lazy(() => z.object({ type: z.literal("usage"), usage: ReportedUsage })),
  limits: z.lazy(() => z.object({ type: z.literal("limits"), limits: RateLimits })),
  stop: z.lazy(() =>
    z.object({
      type: z.literal("stop"),
      reason: Stop,
      word: z.string().optional(),
      opaque: z.string().optional(),
    }),
  ),
  error: z.lazy(() =>
    z.object({
      type: z.literal("error"),
      code: z.enum(CODES),
      message: z.string(),
      retry_after_ms: z.number().optional(),
      retryable: z.boolean().optional(),
      too_long: z.boolean().optional(),
    }),
  ),
};
const Kind = z.lazy(() => z.object({ type: z.object(EVENTS).keyof() }));

/** The event in a document. Text deltas skip the schema, because an answer has thousands of them. */
export function eventOf(document: string): LLMEvent {
  const json = jsonOf(document);
  return isDelta(json) ? json : parsed(EVENTS[parsed(Kind, json).type], json);
}

/** The answer in a document of a driver that does not stream. Without usage, its tokens count as output. */
export function answerOf(document: string) {
  const { tokens_used = 0, ...answer } = parsed(Answer, jsonOf(document));
  const all = { input_tokens: 0, output_tokens: tokens_used, cached_tokens: 0 };
  return { ...answer, usage: answer.usage ?? sanitizedUsage(all) };
}

function isDelta(value: unknown): value is { type: "text_delta" | "reasoning_delta"; text: string } {
  return (
    typeof value === "object" &&
    value !== null &&
    "type" in value &&
    (value.type === "text_delta" || value.type === "reasoning_delta") &&
    "text" in value &&
    typeof value.text === "string"
  );
}

function jsonOf(document: string): unknown {
  try {
    return JSON.parse(document);
  } catch (cause) {
    const shown = JSON.stringify(document.slice(0, 80));
    const message = `the model's driver must answer in JSON, one document a read; it answered ${shown}`;
    throw new SyscallError("DRIVER", message, { cause, retryable: true });
  }
}

function parsed<S extends z.ZodType>(schema: S, json: unknown): z.infer<S> {
  const result = schema.safeParse(json);
  if (result.success) return result.data;
  const message = `the model's driver sent an answer that is not valid: ${issueText(result.error)}`;
  throw new SyscallError("DRIVER", message, { cause: result.error, retryable: false });
}

/**
 * A signal that follows its parent and also aborts at its own deadline. The reason is always a SyscallError. Call
 * `stop`: until then it holds a timer, and the parent holds it.
 */
export class IdleTimeout {
  readonly #clock: Clock;
  readonly #parent: Cancellation;
  /** Made at its first use. */
  #abort: Abort | undefined;
  #detach: (() => void) | undefined;
  #timer: Timer | undefined;
  readonly #activity: Activity;
  #ms = Number.POSITIVE_INFINITY;
  #since = 0;
  /** Time that had passed when it was paused. */
  #passed = 0;

  /** The deadline restarts while `activity` is busy. */
  constructor(clock: Clock, parent: Cancellation, activity: Activity) {
    this.#clock = clock;
    this.#activity = activity;
    this.#parent = parent;
  }

  get signal(): AbortSignal {
    return this.#made().signal;
  }

  /** Starts the deadline, or continues it after a pause. No effect while it runs. */
  arm(ms: number, expired: () => SyscallError): void {
    if (this.#timer !== undefined) return;
    this.#ms = ms;
    this.#since = this.#clock.monotonic() - this.#passed;
    this.#wait(Math.max(1, this.leftMs), expired);
  }

  /** The time until the next `arm` does not count. */
  pause(): void {
    if (this.#timer === undefined) return;
    this.#passed = this.#clock.monotonic() - this.#since;
    this.#timer.cancel();
    this.#timer = undefined;
  }

  /** Restarts the deadline after activity. */
  touch(): void {
    this.#since = this.#clock.monotonic();
  }

  /** Milliseconds until the deadline. */
  get leftMs(): number {
    return this.#since + this.#ms - this.#clock.monotonic();
  }

  stop(): void {
    this.#timer?.cancel();
    this.#detach?.();
  }

  #made(): Abort {
    if (this.#abort) return this.#abort;
    const abort = new Abort();
    this.#abort = abort;
    this.#detach = onceAborted(this.#parent, () => abort.abort(reasonOf(this.#parent)));
    return abort;
  }

  /** `touch` does not set a new timer: the timer checks the time that is left when it fires. */
  #wait(ms: number, expired: () => SyscallError): void {
    this.#timer = this.#clock.timer(ms, () => {
      if (this.#activity.isBusy) this.touch();
      const left = this.leftMs;
      // At least 1 ms, or a rounding remainder could be waited for forever.
      if (left > 0) this.#wait(Math.max(1, left), expired);
      else this.#made().abort(expired());
    });
  }
}

/** The awaited program; while it is busy with its own work, its silence does not count. */
interface Activity {
  readonly isBusy?: boolean;
}

function reasonOf(signal: Cancellation): SyscallError {
  const reason: unknown = signal.reason;
  if (reason instanceof SyscallError) return reason;
  return new SyscallError("CANCELLED", "the model call was cancelled", { cause: reason });
}
