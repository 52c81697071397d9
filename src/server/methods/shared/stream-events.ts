/** Converts the kernel's events to stream events of the protocol. */

import type { LiveAsk, ProcessEvent, RunUse } from "../../../kernel/process/event.ts";
import type { ProcInfo } from "../../../kernel/types.ts";
import { recordedMode } from "../../../lib/ask-modes.ts";
import type { Channel } from "../../../lib/channel.ts";
import type { AskUser, ProcRef, ProgressPayload, StreamEvent } from "../../../protocol/methods.ts";
import type { Damage } from "../../records/damage.ts";
import { receiptOf } from "./receipt.ts";

/** Converts an event of a process to the form of the protocol (seeds 5.5). */
export function toStreamEvent(ref: ProcRef, event: ProcessEvent, dropped = 0): StreamEvent {
  switch (event.type) {
    case "spawn":
      return spawnEvent(event.info);
    case "step":
      return progress({ event: "step", ...ref, total: event.total, ...useOf(event) });
    case "usage":
      return progress({ event: "usage", ...ref, ...useOf(event) });
    case "text_delta":
    case "reasoning_delta":
      return { type: event.type, payload: { ...ref, step: event.step, text: event.text } };
    case "log":
      return { type: "log_entry", payload: event.entry };
    case "retry": {
      const { step, attempt, delayMs, leftMs, message } = event;
      const [delay_ms, left_ms] = [Math.round(delayMs), Math.round(leftMs)];
      return progress({ event: "retry", ...ref, step, attempt, delay_ms, left_ms, message });
    }
    case "message": {
      const { seq, text, when, state } = event;
      return progress({ event: "message", ...ref, seq, text, when, state });
    }
    case "notice":
      return progress({ event: "notice", ...ref, text: event.text });
    case "unit":
      return progress({ event: "unit", ...ref, op: event.op, snapshot: event.snapshot });
    case "checklist": {
      const { plugin, items } = event;
      return progress({ event: "checklist", ...ref, plugin, items });
    }
    case "ask":
      return { type: "ask_user", payload: askOf(event.ask) };
    case "ask_closed": {
      const { verdict, by = null, via, text } = event.verdict ?? { verdict: null };
      const said = {
        ...{ verdict, by, ...(via && { via }), ...(text && { text }) },
        ...(event.parked && { parked: true as const }),
      };
      const { pid, uuid, ask } = event.ask;
      return { type: "ask_closed", payload: { pid, uuid, request_id: ask.id, ...said } };
    }
    case "activity":
      return progress({ event: "activity", ...ref, activity: event.activity });
    case "mode":
      return progress({ event: "mode", ...ref, mode: event.mode });
    case "child":
      return progress({ event: "child", ...ref, child: event.child });
    case "tool_output": {
      const { step, callId, text, lines } = event;
      return { type: "tool_output", payload: { ...ref, step, call_id: callId, text, lines } };
    }
    case "complete":
      return completeEvent(event.info, dropped);
  }
}

function progress(payload: ProgressPayload): StreamEvent {
  return { type: "progress", payload };
}

/** A question in the form of the protocol. */
export function askOf({ pid, uuid, agent, depth, intent, ask }: LiveAsk): AskUser {
  const { id, kind, step, call_id, asked_at_ms, until_ms, call, questions } = ask;
  const asked = { step, call_id, asked_at_ms, until_ms, call, questions };
  return { request_id: id, kind, pid, uuid, agent, depth, intent, ...asked };
}

/** `because` says why this provider was taken; it is known to the spawn itself only. */
export function spawnEvent(info: ProcInfo, because = ""): StreamEvent {
  const { pid, uuid, intent, provider, model, agent, max_steps } = info;
  return progress({
    event: "spawn",
    ...{ pid, uuid, intent, provider, model, because, agent },
    ...(info.base && { base: info.base }),
    chat: info.chat,
    mode: recordedMode(info.permissions),
    max_steps,
    context_window: info.provider_facts?.context_window ?? null,
    started_at_ms: info.created_at_ms,
    elapsed_ms: info.elapsed_ms,
  });
}

function useOf({ step, tokensUsed, costUsd, contextTokens, contextWindow }: RunUse) {
  return {
    step,
    tokens_used: tokensUsed,
    cost_usd: costUsd,
    context_tokens: contextTokens,
    context_window: contextWindow,
  };
}

export function completeEvent(info: ProcInfo, dropped = 0): StreamEvent {
  return {
    type: "complete",
    payload: { event: "complete", ...receiptOf(info) },
    ...(dropped > 0 && { dropped }),
  };
}

/** Reads a channel to its end, or until the client has disconnected: then it ends the channel. */
export async function* until<T>(channel: Channel<T>, gone: AbortSignal): AsyncGenerator<T> {
  const letGo = (): void => channel.end();
  gone.addEventListener("abort", letGo);
  if (gone.aborted) letGo();
  try {
    yield* channel;
  } finally {
    gone.removeEventListener("abort", letGo);
  }
}

/** The end of a stream: how many events its slow client missed, and which records can't be read. */
export function eof(dropped = 0, damage?: Damage): StreamEvent {
  const damaged = damage?.list() ?? [];
  const payload = { ...(dropped > 0 && { dropped }), ...(damaged.length > 0 && { damaged }) };
  return { type: "eof", ...(Object.keys(payload).length > 0 && { payload }) };
}
