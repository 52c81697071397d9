import type { StreamEvent } from "../../../src/protocol/methods.ts";
import type { ChildState } from "../../../src/protocol/stream.ts";
import { complete, REF, SPAWNED } from "../support.ts";

/** Any moment: the events of these tests are relative to it. */
export const NOW = Date.UTC(2026, 0, 1, 12);

type LogPayload = Extract<StreamEvent, { type: "log_entry" }>["payload"];
export type Call = NonNullable<LogPayload["call"]>;

let ids = 0;

/** A tool call as the log has it: done after two seconds. */
export function call(name: string, input: Record<string, unknown>, o: Partial<Call> = {}): Call {
  return {
    id: `call-${++ids}`,
    name,
    path: "/dev/x",
    input,
    state: "done",
    result: "",
    error: null,
    error_code: null,
    started_at: new Date(NOW).toISOString(),
    duration_ms: 2100,
    ...o,
  };
}

export function started(one: Call, step = 1): StreamEvent {
  const running: Call = { ...one, state: "running", result: null, error: null, duration_ms: null };
  return { type: "log_entry", payload: { ts: "", step, kind: "tool", text: one.name, call: running } };
}

export function ended(one: Call, step = 1): StreamEvent {
  return {
    type: "log_entry",
    payload: { ts: "", step, kind: "result", text: one.error ?? one.result ?? "", call: one },
  };
}

export function output(one: Call, text: string, lines: number): StreamEvent {
  return { type: "tool_output", payload: { ...REF, step: 1, call_id: one.id, text, lines } };
}

export function thinks(step: number, text: string): StreamEvent {
  return { type: "reasoning_delta", payload: { ...REF, step, text } };
}

export function child(o: Partial<ChildState> = {}): StreamEvent {
  return {
    type: "progress",
    payload: {
      event: "child",
      ...REF,
      child: {
        pid: 8,
        uuid: "child-8",
        parent_uuid: REF.uuid,
        call_id: null,
        agent: "coder",
        intent: "count the files",
        state: "running",
        step: 1,
        tokens_used: 1200,
        cost_usd: null,
        started_at_ms: NOW,
        max_steps: null,
        doing: { kind: "tool", text: "Bash find . -type f", since_ms: NOW, until_ms: null },
        ...o,
      },
    },
  };
}

export function retry(attempt: number, message = "OpenAI answered 529: overloaded"): StreamEvent {
  return {
    type: "progress",
    payload: { event: "retry", ...REF, step: 1, attempt, delay_ms: 4000, left_ms: 540_000, message },
  };
}

/** A question about a call to a person, asked one second after the call's start. */
export function asks(one: Call): StreamEvent {
  const payload = {
    ...{ request_id: `ask-${one.id}`, kind: "permission" as const, ...REF, agent: "coder", depth: 0 },
    ...{ intent: "do", step: 1, call_id: one.id, asked_at_ms: NOW + 1000, until_ms: NOW + 300_000 },
    ...{ call: null, questions: [] },
  };
  return { type: "ask_user", payload };
}

export function isAnswered(one: Call): StreamEvent {
  return {
    type: "ask_closed",
    payload: { ...REF, request_id: `ask-${one.id}`, verdict: "yes", by: "user" },
  };
}

export function activity(
  kind: Extract<
    Extract<StreamEvent, { type: "progress" }>["payload"],
    { event: "activity" }
  >["activity"]["kind"],
  text: string,
  o: { since_ms?: number; until_ms?: number | null } = {},
): StreamEvent {
  const doing = { kind, text, since_ms: NOW, until_ms: null, ...o };
  return { type: "progress", payload: { event: "activity", ...REF, activity: doing } };
}

export { complete, REF, SPAWNED };
