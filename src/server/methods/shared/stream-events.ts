/** Converts the kernel's events to stream events of the protocol. */

import type { ProcInfo } from "../../../kernel/types.ts";
import { recordedMode } from "../../../lib/ask-modes.ts";
import type { Channel } from "../../../lib/channel.ts";
import { SyscallError } from "../../../plugin/index.ts";
import type { AskUser, BegunRun, ProcRef, StreamEvent } from "../../../protocol/methods.ts";
import type { LiveAsk, LiveEvent } from "../../../run/live-event.ts";
import type { DamageCollector } from "../../../store/files/damaged-lines.ts";
import type { Caller } from "../../connection/connection.ts";
import type { Services } from "../../services.ts";
import type { StreamReply } from "../method.ts";
import { receiptOf } from "./receipt.ts";

/** The event as the protocol has it. An event without a type of its own there is a `progress` event. */
export function toStreamEvent(ref: ProcRef, event: LiveEvent, dropped = 0): StreamEvent {
  switch (event.event) {
    case "spawn":
      return spawnEvent(event.info);
    case "complete":
      return completeEvent(event.info, dropped);
    case "log":
      return { type: "log_entry", payload: event.entry };
    case "text_delta":
    case "reasoning_delta":
      return { type: event.event, payload: { ...ref, step: event.step, text: event.text } };
    case "tool_output": {
      const { event: type, ...payload } = event;
      return { type, payload: { ...ref, ...payload } };
    }
    case "ask":
      return { type: "ask_user", payload: askOf(event.ask) };
    case "ask_closed": {
      const { event: type, ask: asking, verdict: given, ...state } = event;
      const { verdict, by = null, via, text } = given ?? { verdict: null };
      const { pid, uuid, ask } = asking;
      const answer = { verdict, by, ...(via && { via }), ...(text && { text }) };
      return { type, payload: { pid, uuid, request_id: ask.id, ...answer, ...state } };
    }
    default:
      return { type: "progress", payload: { ...event, ...ref } };
  }
}

/** A question in the form of the protocol. */
export function askOf({ pid, uuid, agent, depth, intent, ask }: LiveAsk): AskUser {
  const { id, answers: _, answered_by: __, ...asked } = ask;
  return { request_id: id, pid, uuid, agent, depth, intent, ...asked };
}

/** `because` says why this provider was taken; it is known to the spawn itself only. */
export function spawnEvent(info: ProcInfo, because = ""): StreamEvent {
  const { pid, uuid, intent, provider, model, agent, max_steps } = info;
  const payload = {
    event: "spawn" as const,
    pid,
    uuid,
    intent,
    provider,
    model,
    because,
    agent,
    ...(info.base && { base: info.base }),
    chat: info.chat,
    mode: recordedMode(info.permissions),
    max_steps,
    context_window: info.provider_facts?.context_window ?? null,
    started_at_ms: info.created_at_ms,
    elapsed_ms: info.elapsed_ms,
  };
  return { type: "progress", payload };
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
export function eof(dropped = 0, damage?: DamageCollector): StreamEvent {
  const damaged = damage?.list() ?? [];
  const payload = { ...(dropped > 0 && { dropped }), ...(damaged.length > 0 && { damaged }) };
  return { type: "eof", ...(Object.keys(payload).length > 0 && { payload }) };
}

/** Whether a person can answer a run's questions by this client. A program of a run never can. */
export function canAnswer({ attended }: { attended?: boolean }, caller: Caller): boolean {
  if (attended !== true) return false;
  try {
    return caller.unit() === undefined;
  } catch (thrown) {
    // A program of a run that has ended may still follow others.
    if (thrown instanceof SyscallError) return false;
    throw thrown;
  }
}

interface FirstEvents {
  /** Why this provider. */
  because: string | undefined;
  /** The client can answer the run's questions. */
  answers: boolean;
  /** See the field of the requests. */
  quiet: boolean | undefined;
}

/** Answers, then streams the process to its end. Call it in the tick in which the process began, so that no event is missed. */
export async function streamRun<A extends BegunRun>(
  services: Services,
  answer: A,
  { because, answers, quiet }: FirstEvents,
  out: StreamReply<A>,
): Promise<void> {
  const ref = { pid: answer.pid, uuid: answer.uuid };
  const channel = services.kernel.attach(ref.pid, { answers, watched: quiet ? "end" : "all" });
  try {
    await out.accept(answer);
    for await (const event of until(channel, out.gone)) {
      const isSpawn = event.event === "spawn";
      await out.send(isSpawn ? spawnEvent(event.info, because) : toStreamEvent(ref, event, channel.dropped));
    }
  } finally {
    channel.end();
  }
}

/** Answers at once: the run continues without this client. */
export function answerRun<A extends BegunRun>(
  { kernel }: Services,
  answer: A,
  out: StreamReply<A>,
): Promise<void> {
  const { notices } = kernel.processes.info(answer.pid);
  return out.answer(notices.length === 0 ? answer : { ...answer, notices });
}
