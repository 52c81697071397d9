/** The events of a process for attached clients, and what they say of it. */

import type { AskMode } from "../../lib/ask-modes.ts";
import type { ChecklistItem, DaemonSnapshot } from "../../plugin/index.ts";
import type { AskVerdict, OpenAsk } from "../../run/ask-schema.ts";
import type { ProcInfo, ToolCallRecord } from "../../store/runs/schema.ts";
import type { PID } from "../types.ts";

/** What a run does now. An ended run does nothing: then there is no activity. */
export interface Activity {
  /**
   * `start`: before the first step; `model`: a model call; `slot`, `retry`: a wait before a model call; `tool`: tool calls;
   * `check`: a check at the end; `compact`: a compaction; `paused`: a signal paused it; `input`: a chat waits for a
   * message; `unit`: the answer is given and background units still run; `ask`: a question waits for an answer; `end`: it is ending or being suspended.
   */
  kind:
    | "start"
    | "model"
    | "slot"
    | "retry"
    | "tool"
    | "check"
    | "compact"
    | "paused"
    | "input"
    | "unit"
    | "ask"
    | "end";
  /** For people: "Bash npm test", "3 calls: Read, Grep, Bash", "waiting for a free slot of openai". One line. */
  text: string;
  /** Unix ms. */
  since_ms: number;
  /** Unix ms of the end of a wait, if it is known. */
  until_ms: number | null;
}

/** A descendant of a watched run: a child, or a child of one. */
export interface ChildState {
  pid: number;
  uuid: string;
  parent_uuid: string | null;
  /** The parent's call of Agent that waits for it. */
  call_id: string | null;
  agent: string;
  intent: string;
  state: "running" | "suspended" | "done" | "failed";
  step: number;
  max_steps: number | null;
  /** With its own children. */
  tokens_used: number;
  cost_usd: number | null;
  started_at_ms: number;
  /** null when it has ended or was suspended. */
  doing: Activity | null;
}

/** One entry of `rnix log`. */
export interface LogEntry {
  ts: string;
  step: number;
  kind: "thought" | "text" | "tool" | "result" | "unit" | "compact" | "model" | "inbox";
  text: string;
  /** With `tool`, the start of a call, and with `result`, its end. */
  call?: LoggedCall;
}

/** A tool call in the log. While it is `running`, it has no result and no duration. */
export type LoggedCall =
  | Omit<ToolCallRecord, "kept" | "inbox">
  | (Omit<ToolCallRecord, "kept" | "inbox" | "duration_ms" | "state"> & {
      state: "running";
      duration_ms: null;
    });

/** What a run has used so far, with its children. */
export interface RunUse {
  step: number;
  tokensUsed: number;
  costUsd: number | null;
  /** Of the conversation: the last request and its answer; before an answer, an estimate. null: not known. */
  contextTokens: number | null;
  contextWindow: number | null;
}

/** A message of the user in a run's inbox. */
export interface UserMessage {
  /** Its number in the inbox. */
  seq: number;
  text: string;
  /** When the model gets it: with its next step, or when its present answer is complete. */
  when: "next_step" | "after_answer";
}

/** An event for attached clients. `complete` is always the last and never dropped. */
export type ProcessEvent =
  | { type: "spawn"; info: ProcInfo }
  /** Tokens and cost are what the run has used before this step. */
  | ({ type: "step"; total: number | null } & RunUse)
  | ({ type: "usage" } & RunUse)
  | { type: "text_delta"; step: number; text: string }
  /** Reasoning of the model as it streams in; not part of its answer. */
  | { type: "reasoning_delta"; step: number; text: string }
  | { type: "log"; entry: LogEntry }
  | { type: "retry"; step: number; attempt: number; delayMs: number; leftMs: number; message: string }
  | { type: "notice"; text: string }
  | ({ type: "message"; state: "queued" | "read" | "taken_back" } & UserMessage)
  | { type: "activity"; activity: Activity }
  /** What the run is asked for without a rule. */
  | { type: "mode"; mode: AskMode }
  | { type: "child"; child: ChildState }
  /** New output of a running call; `lines`: its whole lines so far. */
  | { type: "tool_output"; step: number; callId: string; text: string; lines: number }
  /** The list that a plugin shows of the whole tree. */
  | { type: "checklist"; plugin: string; items: readonly ChecklistItem[] }
  /** A background unit of the process changed; `op` as in the seed. */
  | { type: "unit"; step: number; op: string; snapshot: DaemonSnapshot }
  /** The process, or one below it, asks a person. */
  | { type: "ask"; ask: LiveAsk }
  /** The question is over. Without a verdict its call has ended, or, if `parked`, its run is suspended and keeps it. */
  | { type: "ask_closed"; ask: LiveAsk; verdict: AskVerdict | null; parked?: boolean }
  | { type: "complete"; info: ProcInfo };

/** A question to a person, with the process that asks it. */
export interface LiveAsk {
  pid: PID;
  uuid: string;
  agent: string;
  /** 0 for a run that no run has spawned. */
  depth: number;
  intent: string;
  ask: OpenAsk;
}
