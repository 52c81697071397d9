/** What a streaming method sends after its answer. */

import type { Activity, ChildState } from "../kernel/process/event.ts";
import type { AskMode } from "../lib/ask-modes.ts";
import type { ChecklistItem, DaemonSnapshot } from "../plugin/index.ts";
import type { AskClosed, AskUser, AskVerdict } from "./ask.ts";
import type { DamagedLines } from "./fields.ts";
import type { Receipt } from "./receipt.ts";

export type { Activity, ChildState };

/** What the conversation takes of the model's window, as far as it is known. */
interface ContextUse {
  /** Tokens of the last request and its answer; before an answer, an estimate. */
  context_tokens: number | null;
  context_window: number | null;
}

/**
 * Progress of a run (seeds 5.5). `total` is null where there is no limit. A client ignores events that it does not know.
 * A client that attaches gets the present state first, with the same events.
 */
export type ProgressPayload =
  | {
      event: "spawn";
      pid: number;
      uuid: string;
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
  | ({
      event: "step";
      pid: number;
      uuid: string;
      step: number;
      total: number | null;
      /** Used before this step. */
      tokens_used: number;
      cost_usd: number | null;
    } & ContextUse)
  /** After each answer of the model, and while children work. With what children have used. */
  | ({
      event: "usage";
      pid: number;
      uuid: string;
      step: number;
      tokens_used: number;
      cost_usd: number | null;
    } & ContextUse)
  /** What the run is asked for without a rule. */
  | { event: "mode"; pid: number; uuid: string; mode: AskMode }
  | { event: "activity"; pid: number; uuid: string; activity: Activity }
  /** At each change of a descendant: its start, each step and call, its end. */
  | { event: "child"; pid: number; uuid: string; child: ChildState }
  /** A message that the user queued. */
  | {
      event: "message";
      pid: number;
      uuid: string;
      seq: number;
      text: string;
      when: "next_step" | "after_answer";
      state: "queued" | "read" | "taken_back";
    }
  | {
      event: "retry";
      pid: number;
      uuid: string;
      step: number;
      attempt: number;
      delay_ms: number;
      /** How long failed attempts are retried from now on. */
      left_ms: number;
      message: string;
    }
  /** The list that a plugin shows of the run's whole tree, in place of its last one. */
  | { event: "checklist"; pid: number; uuid: string; plugin: string; items: readonly ChecklistItem[] }
  /** A background unit: `added`, `removed`, `event`, or its new status. A client that attaches gets the status of each. */
  | { event: "unit"; pid: number; uuid: string; op: string; snapshot: DaemonSnapshot }
  | { event: "notice"; pid: number; uuid: string; text: string };

/** A tool call in the log. While it is `running`, it has no result and no duration. */
interface LoggedCall {
  id: string;
  name: string;
  path: string | null;
  input: Record<string, unknown>;
  state: "running" | "done" | "failed" | "denied" | "cancelled" | "waiting" | "unknown";
  /** As the model sees it. Of Edit: a line about the file, then a unified diff with line numbers. */
  result: string | null;
  error: string | null;
  error_code: string | null;
  started_at: string;
  duration_ms: number | null;
  /** How long it waited for a person; `duration_ms` is without it. */
  waited_ms?: number;
  /** What a person was asked about it, with the verdicts. */
  asked?: AskVerdict[];
}

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
      payload: {
        ts: string;
        step: number;
        kind: "thought" | "text" | "tool" | "result" | "unit" | "compact" | "model" | "inbox" | "end";
        text: string;
        /** With `tool`, the start of a call, and with `result`, its end. */
        call?: LoggedCall;
        /** With `end`, the last entry of a run that has ended or was suspended. */
        end?: Omit<Receipt, "result" | "output">;
      };
    }
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
