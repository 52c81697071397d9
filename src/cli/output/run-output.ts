/** What a command needs of a view that shows a run: as plain lines, or live at a terminal. */

import type { AskAnswer, StreamEvent } from "../../protocol/methods.ts";
import type { Io } from "../io.ts";
import type { View } from "../terminal/screen.ts";

/** Sends the answers of a person to a question. Fails when the question is over. */
export type SendAnswer = (requestId: string, answers: AskAnswer[]) => Promise<void>;

/** The place of an input line in a view. */
export interface InputSlot {
  readonly rows: number;
  /** Drawn below the status line. */
  below: { frame: View; foot?(columns: number): string[] } | null;
  /** Takes the keys that are not the view's. */
  unused: {
    key(data: string): void;
    paste(text: string): void;
    /** False: something is typed and not sent, and Ctrl-D is a key of the text. */
    readonly isEmpty?: boolean;
  } | null;
  /** What the view shows of an event. */
  filter: ((event: StreamEvent) => readonly StreamEvent[]) | null;
  redraw(): void;
}

export interface RunOutput {
  show(event: StreamEvent): void;
  /** Prints a line for the user on stderr, also with -q. */
  say(line: string): void;
  notice(text: string): void;
  /** Prints a notice at once, also with -q. */
  warn(notice: string): void;
  /** The outside world while the view is open: what is printed to its stderr does not damage the view. */
  readonly io: Io;
  /** Gives the terminal to a question while `work` runs. Absent: it is free. */
  lend?<T>(work: () => Promise<T>): Promise<T>;
  /** Reads the user's keys from now on, if there are any. */
  listen(): void;
  /** The events, each when it is to be shown. Absent: at once. */
  paced?(events: AsyncIterable<StreamEvent>): AsyncIterable<StreamEvent>;
  /** Resolves when the user leaves the run and lets it continue. */
  readonly left: Promise<null>;
  /** Gives the view the questions of the run, if it can ask them. */
  answerWith?(send: SendAnswer): void;
  /** Where an input line is drawn and gets its keys. Absent: there is none. */
  readonly slot?: InputSlot;
  /** Ends the view: from then on the command prints by itself. Safe twice. */
  close(): Promise<void>;
}
