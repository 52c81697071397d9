/** What a streaming method sends after its answer. */

import type { AskMode } from "../lib/ask-modes.ts";
import type { Activity, ChildState, LogEntry, ProgressEvent } from "../run/live-event.ts";
import type { AskClosed, AskUser } from "./ask.ts";
import type { DamagedLines, ProcRef } from "./fields.ts";
import type { Receipt } from "./receipt.ts";
import type { StoryLine } from "./story.ts";
import type { ProcChanges } from "./watch.ts";

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
