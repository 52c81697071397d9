/** What the terminal gives to a conversation and to each run in it. */

import type { AskAnswer } from "../../protocol/methods.ts";
import type { Io } from "../io.ts";
import type { InputLine } from "../terminal/input-line.ts";
import type { Look } from "../terminal/look.ts";
import type { Screen } from "../terminal/screen.ts";
import type { ChatOptions } from "./actions.ts";
import type { BelowLine } from "./below.ts";
import type { Link } from "./link.ts";

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
  showPast(uuid: string): Promise<void>;
  report(work: Promise<unknown>): void;
}
