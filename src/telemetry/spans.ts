/** The spans of a run, after OpenTelemetry's conventions for generative AI. */

import { chatKey, spanIdOf, type TraceContext, traceOf } from "../lib/trace-context.ts";
import type { Message as ChatMessage, Usage } from "../plugin/index.ts";
import type { ProcInfo } from "../run/process-schema.ts";
import type { ToolCallRecord } from "../run/step-schema.ts";
import type { Message } from "./protobuf.ts";

/** What all spans of a run share. */
export interface RunFacts {
  uuid: string;
  agent: string;
  trace: TraceContext;
}

/** The answer of a model to a step, or why there is none, as the kernel reports it. */
export interface AnswerFacts {
  step: number;
  /** When the step began. */
  ts: string;
  provider: { device: string; model: string };
  /** New in this step. */
  messages: readonly ChatMessage[];
  message?: ChatMessage;
  usage?: Usage;
  stop_reason?: string;
  error?: { code: string };
}

/** Maximum characters of one text that is sent with the content of runs. */
const MAX_TEXT = 8192;

const INTERNAL = 1;
const CLIENT = 3;
const ERROR = 2;
const FLAG_SAMPLED = 1;

type AttributeValue = string | number | boolean | readonly string[] | null | undefined;
type Attributes = Record<string, AttributeValue>;

export function factsOf({ uuid, agent, env }: Pick<ProcInfo, "uuid" | "agent" | "env">): RunFacts {
  return { uuid, agent, trace: traceOf({ uuid, traceparent: env.values.TRACEPARENT }) };
}

/** The whole run. It is known at its end only; the other spans name it before. */
export function runSpan(run: RunFacts, info: ProcInfo, content: boolean): Message {
  const { provider, provider_facts, model, usage, created_at_ms, ended_at_ms, exit_code, exit_reason } = info;
  return span(run, {
    key: run.uuid,
    parentId: run.trace.parentId,
    name: `invoke_agent ${run.agent}`,
    kind: INTERNAL,
    startMs: created_at_ms,
    endMs: ended_at_ms ?? created_at_ms,
    error: exit_code === 0 ? undefined : (exit_reason ?? "_OTHER"),
    attributes: {
      "gen_ai.operation.name": "invoke_agent",
      "gen_ai.provider.name": providerName(provider_facts?.driver ?? provider),
      "gen_ai.request.model": model,
      ...usageAttributes(usage),
      "rnix.verdict": exit_reason,
      "rnix.exit_code": exit_code,
      "rnix.steps": info.steps,
      "rnix.cost_usd": info.cost_usd,
      ...(content && {
        "gen_ai.input.messages": messagesText([{ role: "user", content: info.intent }]),
        "gen_ai.output.messages": messagesText([{ role: "assistant", content: info.result ?? "" }]),
      }),
    },
  });
}

/** A step's request to the model, with its waits and retries. */
export function chatSpan(run: RunFacts, answer: AnswerFacts, endMs: number, content: boolean): Message {
  const { step, ts, message, messages, usage, stop_reason } = answer;
  return span(run, {
    key: chatKey(run.uuid, step),
    parentId: spanIdOf(run.uuid),
    name: `chat ${answer.provider.model}`,
    kind: CLIENT,
    startMs: Date.parse(ts),
    endMs,
    error: answer.error?.code,
    attributes: {
      ...chatLabels(answer),
      "gen_ai.response.finish_reasons": stop_reason && [FINISH[stop_reason] ?? stop_reason],
      ...usageAttributes(usage),
      "rnix.step": step,
      ...(content && {
        "gen_ai.input.messages": messagesText(messages),
        "gen_ai.output.messages": message && messagesText([message]),
      }),
    },
  });
}

/** A tool call. `key`: names it among all calls of all runs. */
export function toolSpan(run: RunFacts, key: string, call: ToolCallRecord, content: boolean): Message {
  const { id, name, input, state, error_code, started_at, duration_ms, waited_ms = 0 } = call;
  const startMs = Date.parse(started_at);
  return span(run, {
    key,
    parentId: spanIdOf(run.uuid),
    name: `execute_tool ${name}`,
    kind: INTERNAL,
    startMs,
    endMs: startMs + duration_ms + waited_ms,
    error: state === "done" ? undefined : (error_code ?? state),
    attributes: {
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": name,
      "gen_ai.tool.call.id": id,
      "gen_ai.tool.type": "function",
      "rnix.call.state": state,
      "rnix.call.waited_ms": waited_ms || undefined,
      ...(content && {
        "gen_ai.tool.call.arguments": shortened(JSON.stringify(input)),
        "gen_ai.tool.call.result": shortened(call.result ?? call.error ?? ""),
      }),
    },
  });
}

/** The conventions' own names of reasons and providers, where ours differ. */
const FINISH: Readonly<Record<string, string>> = {
  end_turn: "stop",
  tool_calls: "tool_call",
  max_tokens: "length",
  refusal: "content_filter",
};
const PROVIDERS: Readonly<Record<string, string>> = { google: "gcp.gemini", claude: "anthropic" };

function providerName(device: string): string {
  const driver = device.slice(device.lastIndexOf("/") + 1);
  return PROVIDERS[driver] ?? driver;
}

/** What a request to a model and its metrics are known by. */
export function chatLabels({ provider: { device, model } }: AnswerFacts): Record<string, string> {
  return {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": providerName(device),
    "gen_ai.request.model": model,
  };
}

interface SpanDraft {
  key: string;
  parentId: string | undefined;
  name: string;
  kind: number;
  startMs: number;
  endMs: number;
  /** A word for the class of the error; its message may hold content. */
  error: string | undefined;
  attributes: Attributes;
}

function span({ uuid, agent, trace }: RunFacts, draft: SpanDraft): Message {
  const { key, parentId, name, kind, startMs, endMs, error, attributes } = draft;
  const shared = { "gen_ai.conversation.id": uuid, "gen_ai.agent.name": agent, "error.type": error };
  return {
    traceId: trace.traceId,
    spanId: spanIdOf(key),
    ...(parentId !== undefined && { parentSpanId: parentId }),
    flags: FLAG_SAMPLED,
    name,
    kind,
    startTimeUnixNano: nanos(startMs),
    endTimeUnixNano: nanos(Math.max(startMs, endMs)),
    attributes: attributesOf({ ...attributes, ...shared }),
    ...(error !== undefined && { status: { code: ERROR } }),
  };
}

export function nanos(ms: number): string {
  return `${Math.round(ms)}000000`;
}

/** In the form of OTLP. What is not known is left out. */
export function attributesOf(attributes: Attributes): Message[] {
  return Object.entries(attributes).flatMap(([key, value]) =>
    value === undefined || value === null || value === "" ? [] : [{ key, value: anyValue(value) }],
  );
}

function anyValue(value: string | number | boolean | readonly string[]): Message {
  if (typeof value === "string") return { stringValue: value };
  if (typeof value === "boolean") return { boolValue: value };
  if (typeof value !== "number") return { arrayValue: { values: value.map(anyValue) } };
  return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}

function usageAttributes(usage: Usage | undefined): Attributes {
  return {
    "gen_ai.usage.input_tokens": usage?.input_tokens,
    "gen_ai.usage.output_tokens": usage?.output_tokens,
    "gen_ai.usage.cache_read.input_tokens": usage?.cached_tokens || undefined,
    "gen_ai.usage.cache_creation.input_tokens": usage?.cache_write_tokens || undefined,
  };
}

/** Messages in the form of the conventions, as JSON. Images are left out. */
function messagesText(messages: readonly ChatMessage[]): string {
  const all = messages.map(({ role, content, tool_calls = [], tool_call_id: id }) => {
    const said = shortened(content);
    const text =
      id === undefined ? { type: "text", content: said } : { type: "tool_call_response", id, response: said };
    const calls = tool_calls.map(({ id, name, input }) => {
      const json = JSON.stringify(input);
      return { type: "tool_call", id, name, arguments: json.length > MAX_TEXT ? shortened(json) : input };
    });
    return { role, parts: [...(content === "" ? [] : [text]), ...calls] };
  });
  return JSON.stringify(all);
}

function shortened(text: string): string {
  return text.length <= MAX_TEXT ? text : `${text.slice(0, MAX_TEXT)}…`;
}
