/** Reads the events that the Claude Code CLI prints. */

import { type LLMEvent, SyscallError, type Usage } from "rnix/plugin";
import { z } from "zod";
import { AT_WORK, type CliStream, jsonOf } from "../_model/cli-run.ts";
import {
  type FailureKind,
  kindOfName,
  kindOfStatus,
  RATE_LIMITED,
  REFUSED,
  TOO_LONG,
  UNKNOWN_MODEL,
} from "../_model/failure-kind.ts";
import { type Stop, stopOf } from "../_model/settings.ts";

/**
 * Reads what `claude -p --output-format stream-json` prints as the events of a model device. Its lines carry events of
 * the API too (`stream_event`); those of subagents are left out.
 */
export class Stream implements CliStream {
  readonly name = "claude";
  /** Called with the id of each tool call that the model begins to write. */
  readonly #onToolCall: (id: string) => void;
  #messages = 0;
  /** Usage of the complete messages, and of the current one. */
  readonly #pastUsage: Usage = { input_tokens: 0, output_tokens: 0, cached_tokens: 0 };
  #currentUsage: Usage = { input_tokens: 0, output_tokens: 0, cached_tokens: 0 };
  #failure: Partial<Failure> = {};
  #resetAtMs: number | undefined;
  /** How the last message ended: older versions do not repeat it in the result. */
  #stopWord: string | undefined;
  #ended = false;

  constructor(onToolCall: (id: string) => void) {
    this.#onToolCall = onToolCall;
  }

  get ended(): boolean {
    return this.#ended;
  }

  *events(line: string): Generator<LLMEvent> {
    // The result of a call, which the kernel already has.
    if (line.startsWith('{"type":"user"')) return;
    const json = jsonOf(line);
    if (json === undefined) return;
    const { data } = Line.safeParse(json);
    if (!data) {
      // An unknown kind of line.
      yield AT_WORK;
      return;
    }
    if ("parent_tool_use_id" in data && data.parent_tool_use_id) return;
    switch (data.type) {
      case "stream_event":
        yield* this.#ofApi(data.event);
        break;
      case "assistant":
        if (data.error) this.#failure = { kind: data.error };
        break;
      case "rate_limit_event":
        if (data.rate_limit_info.status === "rejected" && data.rate_limit_info.resetsAt !== undefined) {
          this.#resetAtMs = data.rate_limit_info.resetsAt * 1000;
        }
        break;
      case "result":
        yield* this.#result(data);
        break;
      default:
        yield AT_WORK;
    }
  }

  *#ofApi(event: z.infer<typeof ApiEvent>): Generator<LLMEvent> {
    switch (event.type) {
      case "message_start":
        if (this.#messages++ > 0) yield { type: "turn" };
        add(this.#pastUsage, this.#currentUsage);
        this.#currentUsage = usageOf(event.message.usage);
        yield this.#usage();
        break;
      case "content_block_start":
        yield AT_WORK;
        if (event.content_block.id !== undefined) this.#onToolCall(event.content_block.id);
        break;
      case "content_block_delta":
        if (event.delta.type === "text_delta") yield { type: "text_delta", text: event.delta.text };
        else if (event.delta.type === "thinking_delta")
          yield { type: "reasoning_delta", text: event.delta.thinking };
        else yield AT_WORK;
        break;
      case "message_delta":
        this.#currentUsage.output_tokens = event.usage?.output_tokens ?? this.#currentUsage.output_tokens;
        this.#stopWord = event.delta?.stop_reason ?? undefined;
        yield this.#usage();
        break;
    }
  }

  *#result(result: z.infer<typeof Result>): Generator<LLMEvent> {
    this.#ended = true;
    const counted = { ...this.#pastUsage };
    add(counted, this.#currentUsage);
    // The result leaves out requests that broke off, but those cost tokens too.
    const reported = result.usage ? usageOf(result.usage) : counted;
    const used = totalOf(reported) < totalOf(counted) ? counted : reported;
    // The cost of a model without a known price is a guess.
    const known = Object.values(result.modelUsage ?? {}).every(({ costBasis }) => costBasis !== "unknown");
    const cost = known ? result.total_cost_usd : undefined;
    yield { type: "usage", usage: { ...used, ...(cost !== undefined && { cost_usd: cost }) } };
    const stop = this.#stop(result);
    if (stop.reason === "unknown") throw brokenOff(stop.word);
    // Older versions send no deltas, but the whole answer here.
    if (this.#messages === 0 && result.result) yield { type: "text_delta", text: result.result };
    yield { type: "stop", ...stop };
  }

  /** Why it ended; throws the error that it reports. */
  #stop(result: z.infer<typeof Result>): Stop {
    const word = result.stop_reason ?? this.#stopWord;
    const stop = stopOf(word ?? "end_turn", false);
    if (stop.reason === "refusal") return stop;
    // Its tool calls are answered within the run, so an end with one is a regular end.
    if (!result.is_error) return stop.reason === "tool_calls" ? { reason: "end_turn" } : stop;
    if (this.#failure.kind === "max_output_tokens") return { reason: "max_tokens", word };
    throw failureOf({
      kind: this.#failure.kind,
      status: result.api_error_status ?? undefined,
      type: result.api_error_type ?? undefined,
      reason: result.terminal_reason ?? result.subtype,
      text: result.result ?? result.errors?.join("; ") ?? "it gave no reason",
      resetAtMs: this.#resetAtMs,
    });
  }

  #usage(): LLMEvent {
    const usage = { ...this.#pastUsage };
    add(usage, this.#currentUsage);
    return { type: "usage", usage };
  }
}

function brokenOff(word: string | undefined): SyscallError {
  const message = `claude broke off in the middle of its answer (${JSON.stringify(word)})`;
  return new SyscallError("UNAVAILABLE", message, { retryable: true });
}

function totalOf({ input_tokens, output_tokens }: Usage): number {
  return input_tokens + output_tokens;
}

const count = z.number().nonnegative().nullish();
const ApiUsage = z.object({
  input_tokens: count,
  output_tokens: count,
  cache_read_input_tokens: count,
  cache_creation_input_tokens: count,
});

const ApiEvent = z.discriminatedUnion("type", [
  z.object({ type: z.literal("message_start"), message: z.object({ usage: ApiUsage }) }),
  z.object({
    type: z.literal("content_block_start"),
    content_block: z.object({ id: z.string().optional() }),
  }),
  z.object({
    type: z.literal("content_block_delta"),
    delta: z.discriminatedUnion("type", [
      z.object({ type: z.literal("text_delta"), text: z.string() }),
      z.object({ type: z.literal("thinking_delta"), thinking: z.string() }),
      z.object({ type: z.literal("input_json_delta") }),
      z.object({ type: z.literal("signature_delta") }),
      z.object({ type: z.literal("citations_delta") }),
    ]),
  }),
  z.object({
    type: z.literal("message_delta"),
    delta: z.object({ stop_reason: z.string().nullish() }).nullish(),
    usage: z.object({ output_tokens: count }).nullish(),
  }),
  z.object({ type: z.enum(["content_block_stop", "message_stop", "ping"]) }),
]);

const parent = { parent_tool_use_id: z.string().nullish() };

const Result = z.object({
  type: z.literal("result"),
  subtype: z.string(),
  is_error: z.boolean(),
  result: z.string().nullish(),
  errors: z.array(z.string()).nullish(),
  stop_reason: z.string().nullish(),
  terminal_reason: z.string().nullish(),
  api_error_status: z.number().nullish(),
  api_error_type: z.string().nullish(),
  total_cost_usd: z.number().nonnegative().optional(),
  usage: ApiUsage.nullish(),
  modelUsage: z.record(z.string(), z.object({ costBasis: z.string().optional() })).nullish(),
});

const Line = z.discriminatedUnion("type", [
  z.object({ type: z.literal("stream_event"), event: ApiEvent, ...parent }),
  z.object({ type: z.literal("assistant"), error: z.string().nullish(), ...parent }),
  z.object({
    type: z.literal("rate_limit_event"),
    rate_limit_info: z.object({ status: z.string(), resetsAt: z.number().optional() }),
  }),
  z.object({ type: z.literal("system") }),
  Result,
]);

function usageOf(usage: z.infer<typeof ApiUsage>): Usage {
  const cached = usage.cache_read_input_tokens ?? 0;
  return {
    input_tokens: (usage.input_tokens ?? 0) + cached + (usage.cache_creation_input_tokens ?? 0),
    output_tokens: usage.output_tokens ?? 0,
    cached_tokens: cached,
  };
}

function add(sum: Usage, more: Usage): void {
  sum.input_tokens += more.input_tokens;
  sum.output_tokens += more.output_tokens;
  sum.cached_tokens += more.cached_tokens;
}

/** What the CLI prints about a request that failed. */
interface Failure {
  /** `error` of the message that stands for the answer. */
  kind: string | undefined;
  status: number | undefined;
  /** Of the API's error document. */
  type: string | undefined;
  /** Why the run ended. */
  reason: string;
  text: string;
  resetAtMs: number | undefined;
}

const REASONS: Readonly<Record<string, FailureKind>> = {
  prompt_too_long: TOO_LONG,
  // The kernel set this limit, and checks itself what is left.
  max_turns: RATE_LIMITED,
  error_max_turns: RATE_LIMITED,
};

const UNEXPLAINED: FailureKind = { code: "DRIVER", retryable: true };

const ADVICE: ReadonlyMap<FailureKind, string> = new Map([
  [
    REFUSED,
    "Log in (`claude`, then /login; or `claude setup-token`), or set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN",
  ],
  [UNKNOWN_MODEL, "Check the model's name"],
]);

/** The CLI's failure as a typed error that says what to do. The API's words count before the CLI's own. */
function failureOf({ kind, status, type, reason, text, resetAtMs }: Failure): SyscallError {
  const found =
    (Object.hasOwn(REASONS, reason) ? REASONS[reason] : undefined) ??
    kindOfName(type) ??
    (status === undefined ? undefined : kindOfStatus(status)) ??
    kindOfName(kind) ??
    UNEXPLAINED;
  const { code, retryable, tooLong } = found;
  const advice = ADVICE.get(found);
  const message = `claude: ${text.trim().replace(/\.$/, "")}${advice === undefined ? "" : `. ${advice}`}`;
  return new SyscallError(code, message, {
    retryable,
    ...(tooLong && { tooLong }),
    ...(code === "EXHAUSTED" && resetAtMs !== undefined && { resetAtMs }),
  });
}
