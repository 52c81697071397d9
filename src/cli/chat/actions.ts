/** What the commands of a conversation may do, and what its parts get. */

import type { AskMode } from "../../lib/ask-modes.ts";
import type { AskAnswer } from "../../protocol/methods.ts";
import type { SpawnRequest } from "../../protocol/run.ts";
import type { Io } from "../io.ts";
import type { CompletableCommand } from "../terminal/completion.ts";
import type { InputLine } from "../terminal/input-line.ts";
import type { Look } from "../terminal/look.ts";
import type { Screen } from "../terminal/screen.ts";
import type { BelowLine } from "./below.ts";
import type { Link } from "./link.ts";
import type { ConversationNames } from "./names.ts";
import type { Choice } from "./picker.ts";

export type ChatOptions = Omit<SpawnRequest, "intent">;

/** A run that the next message continues. */
export interface PastRun {
  uuid: string;
  state: "live" | "suspended" | "ended";
  /** What it asks without a rule; of a live run its events say it. */
  mode?: AskMode;
  /** The id of a question that waits for the user. */
  question?: string;
}

export interface ChatActions {
  readonly io: Io;
  readonly link: Link;
  readonly look: Look;
  readonly names: ConversationNames;
  /** Of the next run. Commands change them. */
  readonly options: ChatOptions;
  /** The conversation's run: live, suspended or ended; null before the first message. */
  readonly uuid: string | null;
  readonly isLive: boolean;
  readonly isWorking: boolean;
  readonly columns: number;
  /** What the run asks without a rule. */
  readonly mode: AskMode;
  /** Changes it, of the visible run or of the next one. Returns the one that counts. */
  setMode(mode: AskMode): Promise<AskMode>;
  /** Built-in commands, then the prompts of the project and the user. */
  readonly commands: readonly CompletableCommand[];
  /** Prints a plain block into the transcript. */
  print(text: string): void;
  /** The same with styled lines; empty ones at the ends are left out. */
  printLines(lines: readonly string[]): void;
  /** Asks the user to choose; null when the list was left. */
  pick<T>(title: string, choices: readonly Choice<T>[]): Promise<T | null>;
  /** Leaves the present run as it is; the next message begins a new one. */
  begin(): Promise<void>;
  /** Continues another conversation, whose end is shown. */
  change(run: PastRun): Promise<void>;
  /** Asks a question beside the conversation; its answer is no part of it. */
  aside(question: string): void;
  /** Ends the command; the run stays as it is. */
  leave(): void;
}

/** What the terminal gives to a conversation and to each run in it. */
export interface TerminalParts {
  io: Io;
  look: Look;
  screen: Screen;
  line: InputLine;
  below: BelowLine;
  /** The folder and the branch, for the status line. */
  place(): string;
  options: ChatOptions;
  /** Something that is drawn below has changed. */
  changed(): void;
}

export interface ConversationParts extends TerminalParts {
  link: Link;
  stop(): void;
  print(text: string): void;
  /** The user has answered the question about a plan. */
  planAnswered(answer: AskAnswer): Promise<void>;
  /** Resolves with the number of the last entry of the run's log that it has. */
  showPast(uuid: string): Promise<number | undefined>;
  report(work: Promise<unknown>): void;
}
