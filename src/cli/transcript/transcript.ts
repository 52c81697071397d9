/** The parts of a run's transcript, which the live view, plain lines and logs show. */

import type { ProgressPayload, Receipt, StreamEvent } from "../../protocol/methods.ts";
import type { ChildState } from "../../protocol/stream.ts";

export type LogEntry = Extract<StreamEvent, { type: "log_entry" }>["payload"];
export type LoggedCall = NonNullable<LogEntry["call"]>;

/** A tool call that runs or has ended. */
export interface CallBlock extends LoggedCall {
  /** Unix ms. The time that the call has waited for a person is added. */
  startedMs: number;
  /** Unix ms at which the open question about the call was asked. */
  askedMs: number | null;
  /** The end of its output so far, and the number of whole lines of all output. */
  tail: string;
  lines: number;
}

/** A finished part of the transcript. */
export type Block =
  | { kind: "head"; run: RunHead }
  | { kind: "thought"; text: string; ms: number | null }
  | { kind: "call"; call: CallBlock; agents: ChildRun[] }
  /** A child that no call waited for, when it ends. */
  | { kind: "agent"; child: ChildRun }
  /** Files that one answer read, in one line. */
  | { kind: "reads"; calls: readonly CallBlock[] }
  /** What the model has read from its inbox: of the user, of the process with this PID, or of the system. */
  | { kind: "message"; from: "user" | "system" | number; text: string }
  | { kind: "note"; text: string; tone: "warning" | "quiet" }
  | { kind: "end"; receipt: Receipt };

/** What an event adds to the transcript. `answer` is text of the model as it arrives. */
export type Change =
  | { type: "block"; block: Block }
  | { type: "answer"; text: string }
  /** The text is complete. Later text is another answer. */
  | { type: "answer_end" }
  /** The attempt failed: its text is not part of the answer. */
  | { type: "answer_lost" }
  /** Reasoning as it arrives; the block follows. */
  | { type: "thought"; text: string }
  | { type: "call"; call: LoggedCall }
  /** `used`: null where it is not known. */
  | {
      type: "step";
      step: number;
      total: number | null;
      used: { tokens: number; costUsd: number | null } | null;
    }
  | { type: "retry"; retry: Retry }
  /** The model answers after failed attempts, or the run ends between them. `message`: the last failure. */
  | { type: "retried"; attempts: number; message: string; isAnswered: boolean };

export type Retry = Extract<ProgressPayload, { event: "retry" }>;

export type RunHead = Extract<ProgressPayload, { event: "spawn" }>;

/** A descendant of the run. */
export interface ChildRun extends ChildState {
  /** When it ended, by the clock of this command. */
  endedMs: number | null;
}
