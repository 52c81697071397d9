/** What a streaming method sends after its answer. */

import type { AskMode } from "../lib/ask-modes.ts";
import type { Activity, ChildState, LogEntry, ProgressEvent } from "../run/live-event.ts";
import type { StoryEvent } from "../store/runs/story.ts";
import type { AskClosed, AskUser, ListedAsk } from "./ask.ts";
import type { DamagedLines, ProcRef } from "./fields.ts";
import type { Receipt } from "./receipt.ts";
import type { ListedProc } from "./record.ts";

export type { Activity, ChildState };

type OfRun<E> = E extends unknown ? E & ProcRef : never;

/** A client ignores events that it does not know. One that attaches gets the present state first, with the same events. */
export type ProgressPayload = OfRun<
  | ProgressEvent
  | {
      event: "spawn";
      intent: string;
      provider: string;
      model: string;
      because: string;
      agent: string;
      /** `--base`. Absent: the definitions are those of the work tree. */
      base?: { ref: string; commit: string };
      /** After each answer the run waits for a message instead of ending. */
      chat: boolean;
      /** What a person is asked for without a rule. */
      mode: AskMode;
      max_steps: number | null;
      context_window: number | null;
      started_at_ms: number;
      /** Running time so far, without paused and suspended time. */
      elapsed_ms: number;
    }
>;

/** `complete` carries the seeds' fields (event, pid, result, exit_code, exit_reason, tokens_used) and the receipt's. */
export type CompletePayload = Receipt & { event: "complete" };

export type StreamEvent =
  | { type: "progress"; payload: ProgressPayload }
  | {
      /** The model's text and thoughts as they arrive. */
      type: "text_delta" | "reasoning_delta";
      payload: { pid: number; uuid: string; step: number; text: string };
    }
  | {
      /**
       * New output of a running call, coalesced and bounded: of much output, the newest. It is no part of the result.
       * `lines`: the whole lines so far, also those that were left out.
       */
      type: "tool_output";
      payload: { pid: number; uuid: string; step: number; call_id: string; text: string; lines: number };
    }
  | {
      type: "log_entry";
      payload: Omit<LogEntry, "kind"> & {
        kind: LogEntry["kind"] | "end";
        /** With `end`, the last entry of a run that has ended or was suspended. */
        end?: Omit<Receipt, "result" | "output">;
      };
    }
  | { type: "run_event"; payload: StoryLine }
  | { type: "procs"; payload: ProcChanges }
  /** The run, or a run below it, asks a person. Also sent at attach, for each open question. */
  | { type: "ask_user"; payload: AskUser }
  /** The question is over: another client answered, its time is over, or its call has ended (`verdict` is null). */
  | { type: "ask_closed"; payload: AskClosed }
  | { type: "syscall_event"; payload: Record<string, unknown> }
  /** `dropped`: the number of events that this client was too slow for. */
  | { type: "complete"; payload: CompletePayload; dropped?: number }
  /** Only for a run that did not start. */
  | { type: "error"; payload: { event: "error"; error_message: string; code: string } }
  | { type: "eof"; payload?: { dropped?: number; damaged?: DamagedLines[] } };

/** An event of a run. `title`: one line for people, up to 120 characters. */
export interface StoryLine {
  /** Its number: a stream continues after it. null: an older Rnix recorded it. */
  n: number | null;
  t: StoryEvent["t"];
  ts?: string;
  step?: number;
  /** Of a call or a background unit. */
  id?: string;
  title?: string;
  status?: string;
  duration_ms?: number;
  tokens?: number;
  pid?: number;
  /** Only with `bodies`. */
  body?: unknown;
}

/** What is shown of a process, beside what a watcher counts by itself: a change of it is sent. */
export type ShownProc = Pick<
  ListedProc,
  | ("pid" | "uuid" | "parent_uuid" | "agent" | "model" | "project" | "intent" | "status" | "state" | "doing")
  | ("steps" | "max_steps" | "tokens_used" | "cost_usd" | "created_at_ms" | "ended_at_ms" | "is_paused")
  | ("paused_at_ms" | "exit_code" | "exit_reason" | "suspended" | "error" | "workflow" | "chat" | "job")
  | "units"
>;

export interface WatchedProc extends ShownProc {
  elapsed_ms: number;
  /** Unix ms: when it would have begun without its pauses. */
  elapsed_at_ms: number;
}

/** The calls of one key of a provider. */
export interface ProviderQueue {
  provider: string;
  running: number;
  waiting: number;
  at_once: number;
  holds: { model: string; until_ms: number }[];
}

/** The whole state at first, and to a client that was too slow for the changes; else what has changed. */
export interface ProcChanges {
  number: number;
  rows: WatchedProc[];
  /** UUIDs. null: these are all. */
  gone: string[] | null;
  /** null: as before. */
  asks: ListedAsk[] | null;
  /** null: as before. */
  queues: ProviderQueue[] | null;
}
