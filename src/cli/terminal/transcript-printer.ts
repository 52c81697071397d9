/** Prints the finished parts of a run above the live region, and the model's answer as it arrives. */

import { plural } from "../output/format.ts";
import type { Block, Change } from "../transcript/transcript.ts";
import { blockLines, isBrief, isFolded } from "./blocks/block.ts";
import { type Look, plainLines, wrapTo } from "./look.ts";
import { MarkdownStream } from "./markdown.ts";
import type { Screen } from "./screen.ts";

type Part = Exclude<Block, { kind: "end" }>;

export class TranscriptPrinter {
  readonly #screen: Pick<Screen, "columns" | "commit">;
  readonly #look: Look;
  #answer: AnswerText | null = null;
  /** Whether the last part above takes one line; null: there is none yet. */
  #lastIsBrief: boolean | null = null;
  /** The last part that is shown in short. */
  #folded: Part | null = null;
  #isFull = false;

  constructor(screen: Pick<Screen, "columns" | "commit">, look: Look) {
    this.#screen = screen;
    this.#look = look;
  }

  get isFull(): boolean {
    return this.#isFull;
  }

  /** Ctrl+O has more to show of a part above. */
  get hasMore(): boolean {
    return this.#folded !== null;
  }

  add(change: Exclude<Change, { type: "block" }> | { type: "block"; block: Part }): void {
    if (change.type === "answer") {
      this.#answer ??= answerText(change.text, this.#look);
      this.#answer.stream.push(change.text);
      this.#printAnswer(this.#answer, this.#answer.stream.finished(this.#screen.columns));
    } else if (change.type === "answer_end") this.endAnswer();
    else if (change.type === "answer_lost") this.#loseAnswer();
    else if (change.type === "block") this.#block(change.block);
    else if (change.type === "retried") {
      const before = change.isAnswered ? " before the model answered" : "";
      const text = `${plural(change.attempts, "attempt")} failed${before}: ${change.message}`;
      this.#block({ kind: "note", text, tone: "quiet" });
    }
    // The live region shows the others.
  }

  say(line: string): void {
    this.print(wrapTo(plainLines(line).join("\n"), this.#screen.columns), { isBrief: true });
  }

  /** One-line parts follow each other; an empty line sets off all others. */
  print(lines: readonly string[], o: { isBrief: boolean }): void {
    if (lines.length === 0) return;
    const isClose = this.#lastIsBrief === null || (this.#lastIsBrief && o.isBrief);
    this.#lastIsBrief = o.isBrief;
    this.#screen.commit(isClose ? lines : ["", ...lines]);
  }

  endAnswer(): void {
    const answer = this.#answer;
    this.#answer = null;
    if (answer !== null) this.#printAnswer(answer, answer.stream.end(this.#screen.columns));
  }

  /** The end of the answer that is not printed yet, at most `most` lines. */
  answerRest(columns: number, most: number): string[] {
    return this.#answer?.stream.rest(columns, most) ?? [];
  }

  /** Shows the last part in full, and all parts from then on; or in short again. */
  toggleFull(): void {
    this.#isFull = !this.#isFull;
    const folded = this.#folded;
    if (!this.#isFull || folded === null) return;
    this.#folded = null;
    this.print(this.#lines(folded), { isBrief: false });
  }

  /** Whether an empty line belongs between what was printed and the live region. `showsThought`: it begins with reasoning. */
  needsGap(showsThought: boolean): boolean {
    if (this.#lastIsBrief === null) return false;
    // The text that arrives continues what was printed of it.
    if (this.#answer !== null) return !this.#answer.isCommitted;
    return !this.#lastIsBrief || showsThought;
  }

  #block(block: Part): void {
    const lines = this.#lines(block);
    if (!this.#isFull && isFolded(block)) this.#folded = block;
    this.print(lines, { isBrief: isBrief(block, lines) });
  }

  #lines(block: Part): string[] {
    return blockLines(block, { columns: this.#screen.columns, full: this.#isFull }, this.#look);
  }

  #printAnswer(answer: AnswerText, lines: readonly string[]): void {
    if (lines.length === 0) return;
    if (answer.isCommitted) this.#screen.commit(lines);
    else this.print(lines, { isBrief: false });
    answer.isCommitted = true;
  }

  #loseAnswer(): void {
    const lost = this.#answer;
    this.#answer = null;
    const text = "the answer broke off here; the model is asked again";
    if (lost?.isCommitted) this.#block({ kind: "note", text, tone: "warning" });
  }
}

/** The beginning of a JSON document: as Markdown it would lose characters. */
const JSON_BEGIN = /^\s*(\{|\[\s*[[{"\d-])/;

/** An answer that arrives, as JSON or as Markdown. */
interface AnswerText {
  stream: MarkdownStream;
  /** Whether lines of it stand above the live region. */
  isCommitted: boolean;
}

/** `beginning` decides how the text is shown. */
function answerText(beginning: string, look: Look): AnswerText {
  const stream = new MarkdownStream(look);
  if (JSON_BEGIN.test(beginning)) stream.push("```json\n");
  return { stream, isCommitted: false };
}
