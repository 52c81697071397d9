/** Shows a run as plain lines. */

import type { ChildState, Receipt, StreamEvent } from "../../protocol/methods.ts";
import type { Io } from "../io.ts";
import { closedLine, unansweredText } from "../questions/question-text.ts";
import { BlockText, clean, stepText } from "../transcript/block-text.ts";
import { RunState } from "../transcript/run-state.ts";
import type { Block, Change, Retry } from "../transcript/transcript.ts";
import { formatElapsed, printable } from "./format.ts";
import { QuietView } from "./quiet-view.ts";

const ASKED_WIDTH = 160;

/**
 * Shows a run as plain lines: progress on stderr, the answer alone on stdout. A terminal shows the model's words as
 * they arrive, and an answer shown that way is not printed again.
 */
export class PlainView extends QuietView {
  readonly #quiet: boolean;
  /** The answer goes to stdout as text; else stdout belongs to JSON. */
  readonly #printsAnswer: boolean;
  readonly #state = new RunState(Date.now(), { groupsReads: false });
  readonly #blocks: BlockText;
  /** The output for streamed words: stdout only if it is a terminal. */
  readonly #words: Io["stdout"] | null;
  /** The model's last text, and whether more of it may come. */
  #answer = { text: "", isOpen: false };
  /** A whole text that was not streamed. The last one may be the answer, which belongs on stdout. */
  #held = "";
  /** The reasoning that arrives: the line that is not complete. null while none is shown. */
  #thought: { rest: string } | null = null;
  #midLine = false;
  /** The step of each child that was printed last, by UUID. */
  readonly #childSteps = new Map<string, number>();
  /** Why the last attempt failed: the same reason is not printed twice in a row. */
  #lastFailure: string | undefined;

  /** `resumeFlags`: what the command that resumes the run needs. */
  constructor(io: Io, o: { quiet: boolean; answer: boolean; resumeFlags?: readonly string[] }) {
    super(io, o);
    this.#quiet = o.quiet;
    this.#printsAnswer = o.answer;
    this.#blocks = new BlockText(this.style);
    this.#words = wordsOutput(io, o);
  }

  override show(event: StreamEvent): void {
    const { yellow } = this.style;
    if (event.type === "ask_user") this.#printProgress(yellow(unansweredText(event.payload, ASKED_WIDTH)));
    if (event.type === "ask_closed") this.#printProgress(closedLine(event.payload, this.style));
    if (event.type === "progress" && event.payload.event === "child") this.#child(event.payload.child);
    const isOver = event.type === "complete";
    // The end prints the result, on stdout.
    for (const change of this.#state.apply(event, Date.now()))
      if (!isOver || change.type !== "answer") this.#add(change);
  }

  override say(line: string): void {
    this.#printPending();
    this.#endLine();
    super.say(line);
  }

  override notice(text: string): void {
    for (const change of this.#state.notice(text, Date.now())) this.#add(change);
  }

  override warn(notice: string): void {
    this.#state.known(notice);
    super.warn(notice);
  }

  #add(change: Change): void {
    if (change.type === "block") this.#block(change.block);
    else if (change.type === "call") this.#printProgress(this.#blocks.started(change.call));
    else if (change.type === "thought") this.#reasoning(change.text);
    else if (change.type === "answer") this.#text(change.text);
    else if (change.type === "answer_end") {
      if (this.#words === null && this.#answer.isOpen) this.#held = this.#answer.text;
      this.#answer.isOpen = false;
    } else if (change.type === "answer_lost") {
      // The text of the failed attempt is not part of the next one.
      this.#answer = { text: "", isOpen: false };
    } else if (change.type === "step") {
      this.#lastFailure = undefined;
      this.#printProgress(stepText(change, this.style));
    } else if (change.type === "retry") {
      this.#printProgress(this.style.yellow(`  ${retryLine(change.retry, this.#lastFailure)}`));
      this.#lastFailure = change.retry.message;
    }
    // Each attempt that is retried has its line.
  }

  #block(block: Block): void {
    if (block.kind === "end") this.#end(block.receipt);
    else if (block.kind === "thought" && this.#thought !== null) {
      // It was printed as it came.
      this.#printPending();
      this.#thought = null;
    } else this.#printProgress(this.#blocks.of(block));
  }

  #printProgress(text: string): void {
    if (!this.#quiet && text !== "") this.say(text);
  }

  /** A line for each step of a child that a call of Agent waits for; its own log has the rest. */
  #child({ pid, uuid, agent, call_id, step, max_steps, tokens_used }: ChildState): void {
    if (call_id === null || step === 0 || this.#childSteps.get(uuid) === step) return;
    this.#childSteps.set(uuid, step);
    const of = max_steps === null ? "" : `/${max_steps}`;
    this.notice(`Agent: process ${pid} (${agent}), step ${step}${of}, ${tokens_used} tokens`);
  }

  #text(text: string): void {
    if (!this.#answer.isOpen) {
      this.#printPending();
      this.#endLine();
      this.#answer = { text: "", isOpen: true };
    }
    this.#answer.text += text;
    const shown = printable(text);
    this.#words?.write(shown);
    if (this.#words !== null && shown !== "") this.#midLine = !shown.endsWith("\n");
  }

  /** At a terminal the reasoning is printed line by line as it arrives, and so before the text that it leads to. */
  #reasoning(text: string): void {
    if (this.#words === null || this.#quiet) return;
    this.#thought ??= { rest: "" };
    const arrived = this.#thought.rest + text;
    const end = arrived.lastIndexOf("\n");
    this.#thought.rest = "";
    if (end >= 0) this.#printThought(arrived.slice(0, end));
    this.#thought.rest = arrived.slice(end + 1);
  }

  #printThought(text: string): void {
    this.#printProgress(this.#blocks.of({ kind: "thought", text, ms: null }));
  }

  /** Prints what waited for the next line: a text that is not the answer, the last words of a thought. */
  #printPending(): void {
    const held = clean(this.#held);
    const thought = this.#thought?.rest ?? "";
    this.#held = "";
    if (this.#thought !== null) this.#thought.rest = "";
    this.#printThought(thought);
    this.#printProgress(held);
  }

  #end(receipt: Receipt): void {
    const isHeld = this.#held.trim() === receipt.result?.trim();
    if (this.#printsAnswer && isHeld) this.#held = "";
    this.#printPending();
    this.#endLine();
    const isShown = this.#words === this.io.stdout && this.#answer.text.trim() === receipt.result?.trim();
    this.end(receipt, { isQuiet: this.#quiet, isShown });
  }

  #endLine(): void {
    if (!this.#midLine) return;
    this.#midLine = false;
    this.#words?.write("\n");
  }
}

function wordsOutput(io: Io, o: { quiet: boolean; answer: boolean }): Io["stdout"] | null {
  if (o.answer && io.stdout.isTTY) return io.stdout;
  return io.stderr.isTTY && !o.quiet ? io.stderr : null;
}

/** Why the attempt failed, when it is retried, and for how long. */
function retryLine({ attempt, message, delay_ms, left_ms }: Retry, lastFailure: string | undefined): string {
  const why =
    message === lastFailure ? " with the same error" : `: ${printable(message).replace(/[.\s]+$/, "")}`;
  const next = `retry in ${formatElapsed(delay_ms)}, for at most ${formatElapsed(left_ms)} more`;
  return `attempt ${attempt} failed${why}; ${next}`;
}
