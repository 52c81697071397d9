/** The events of a live process for attached clients, and the types of what they carry. */

import type { AskMode } from "../lib/ask-modes.ts";
import type { ChecklistItem, DaemonSnapshot } from "../plugin/index.ts";
import type { AskVerdict, OpenAsk } from "./ask-schema.ts";
import type { ProcInfo } from "./process-schema.ts";
import type { ToolCallRecord } from "./step-schema.ts";

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

export interface LogEntry {
  /**
   * Where the log continues after this entry: the number of its event, or half a number less for reasoning before a text
   * of the same event. It grows with each entry. Absent: it is not recorded, or has no number of its own.
   */
  n?: number | undefined;
  ts: string;
  step: number;
  kind: "thought" | "text" | "tool" | "result" | "unit" | "compact" | "model" | "inbox";
  text: string;
  /** With a recorded `inbox`, the numbers of its messages in the inbox. */
  seqs?: readonly number[];
  /** With `tool`, the start of a call, and with `result`, its end. */
  call?: LoggedCall;
}

/** A tool call in the log. While it is `running`, it has no result and no duration. */
export interface LoggedCall extends Omit<ToolCallRecord, "kept" | "inbox" | "duration_ms" | "state"> {
  state: "running" | ToolCallRecord["state"];
  duration_ms: number | null;
}

/** What a run has used so far, with its children. */
export interface RunUse {
  step: number;
  tokens_used: number;
  cost_usd: number | null;
  /** Tokens of the last request and its answer; before an answer, an estimate. null: not known. */
  context_tokens: number | null;
  context_window: number | null;
}

/** A message of the user in a run's inbox. */
export interface UserMessage {
  /** The number of the message in the inbox. */
  seq: number;
  text: string;
  /** When the model gets it: with its next step, or when its present answer is complete. */
  when: "next_step" | "after_answer";
}

/**
 * Progress of a run. Clients get it with the PID and UUID of the run. A new event needs its type here, a call of
 * `watchers.emit`, and its case in `RunState` (src/cli/transcript/run-state.ts).
 */
export type ProgressEvent =
  /** Tokens and cost are what the run has used before this step. `total` is null where there is no limit. */
  | ({ event: "step"; total: number | null } & RunUse)
  /** After each answer of the model, and while children work. With what children have used. */
  | ({ event: "usage" } & RunUse)
  /** `left_ms`: how long failed attempts are retried from now on. */
  | { event: "retry"; step: number; attempt: number; delay_ms: number; left_ms: number; message: string }
  | { event: "notice"; text: string }
  /** A message that the user queued. */
  | ({ event: "message"; state: "queued" | "read" | "taken_back" } & UserMessage)
  | { event: "activity"; activity: Activity }
  /** The mode has changed: which calls the user is asked about without a rule. */
  | { event: "mode"; mode: AskMode }
  /** At each change of a descendant: its start, each step and call, its end. */
  | { event: "child"; child: ChildState }
  /** The list that a plugin shows of the run's whole tree, in place of its last one. */
  | { event: "checklist"; plugin: string; items: readonly ChecklistItem[] }
  /** A background unit: `added`, `removed`, `event`, or its new status. A client that attaches gets the status of each. */
  | { event: "unit"; step: number; op: string; snapshot: DaemonSnapshot };

/** An event for attached clients. It is not recorded. `complete` is always the last and never dropped. */
export type LiveEvent =
  | ProgressEvent
  | { event: "spawn"; info: ProcInfo }
  /** Text and reasoning of the model as they arrive. Reasoning is not part of its answer. */
  | { event: "text_delta" | "reasoning_delta"; step: number; text: string }
  | { event: "log"; entry: LogEntry }
  /** New output of a running call; `lines`: its whole lines so far. */
  | { event: "tool_output"; step: number; call_id: string; text: string; lines: number }
  /** The process, or one below it, asks a person. */
  | { event: "ask"; ask: LiveAsk }
  /** The question is over. Without a verdict its call has ended, or, if `parked`, its run is suspended and keeps it. */
  | { event: "ask_closed"; ask: LiveAsk; verdict: AskVerdict | null; parked?: true }
  | { event: "complete"; info: ProcInfo };

/** A question to a person, with the process that asks it. */
export interface LiveAsk {
  pid: number;
  uuid: string;
  agent: string;
  /** 0 for a run that no run has spawned. */
  depth: number;
  intent: string;
  ask: OpenAsk;
}
