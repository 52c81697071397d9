/** The parts of a run's transcript as the live view shows them. */

import type { ProgressPayload, Receipt } from "../../protocol/methods.ts";
import type { ChildState } from "../../protocol/stream.ts";
import type { LogEntry } from "../output/log.ts";

export type LoggedCall = NonNullable<LogEntry["call"]>;

/** A tool call and what is known of it so far. */
export interface CallBlock extends LoggedCall {
  /** Unix ms; later by the time that it has waited for a person's answers. */
  startedMs: number;
  /** While a person is asked about it: since when. */
  askedMs: number | null;
  /** The end of its output so far, and how many whole lines that output has. */
  tail: string;
  lines: number;
}

/** A part of the transcript that will not change any more. */
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
  /** The text is over: what follows is another. */
  | { type: "answer_end" }
  /** The attempt failed: its text is not part of the answer. */
  | { type: "answer_lost" };

export type RunHead = Extract<ProgressPayload, { event: "spawn" }>;

/** A descendant of the run. */
export interface ChildRun extends ChildState {
  /** When it ended, by the clock of this command. */
  endedMs: number | null;
}
