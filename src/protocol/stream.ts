/** What a streaming method sends after its answer. */

import type { DamagedLines } from "./fields.ts";
import type { Receipt } from "./receipt.ts";

/** Progress of a run (seeds 5.5). `total` is null where there is no limit. */
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
    }
  | {
      event: "step";
      pid: number;
      uuid: string;
      step: number;
      total: number | null;
      /** Used before this step. */
      tokens_used: number;
      cost_usd: number | null;
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
  | { event: "notice"; pid: number; uuid: string; text: string };

/** A tool call in the log. While it is `running`, it has no result and no duration. */
interface LoggedCall {
  id: string;
  name: string;
  path: string | null;
  input: Record<string, unknown>;
  state: "running" | "done" | "failed" | "denied" | "cancelled" | "waiting" | "unknown";
  /** As the model sees it. */
  result: string | null;
  error: string | null;
  error_code: string | null;
  started_at: string;
  duration_ms: number | null;
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
  | { type: "syscall_event"; payload: Record<string, unknown> }
  /** `dropped`: the number of events that this client was too slow for. */
  | { type: "complete"; payload: CompletePayload; dropped?: number }
  /** Only for a run that did not start. */
  | { type: "error"; payload: { event: "error"; error_message: string; code: string } }
  | { type: "eof"; payload?: { dropped?: number; damaged?: DamagedLines[] } };
