/** Asks a run's questions at the terminal, as plain lines. */

import { messageOf } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { AskAnswer, AskClosed, AskUser } from "../../protocol/methods.ts";
import type { Io } from "../io.ts";
import type { SendAnswer } from "../output/run-output.ts";
import { type Style, styleOf } from "../output/style.ts";
import { headLines, Question, questionLines } from "./question.ts";
import { closedLine, timeLeft } from "./question-text.ts";

/** A line that comes sooner was typed before the question was seen. */
const HELD_MS = 1_000;

interface QuestionPromptPorts {
  send: SendAnswer;
  say(line: string): void;
  /** How long the first question of a request takes no line after it was shown. */
  heldMs?: number;
  /** Nothing more can be read. */
  ended?(): void;
}

/**
 * Asks one question at a time. The first answer counts, here or at another client. What was typed before a question was
 * seen never answers it, and an empty line answers nothing, except a question with a default.
 */
export class QuestionPrompt {
  readonly #io: Io;
  readonly #ports: QuestionPromptPorts;
  readonly #style: Style;
  readonly #queue: AskUser[] = [];
  /** Questions that were shown here and have no end yet. */
  readonly #shown = new Set<string>();
  #current: AskUser | undefined;
  #readable = false;
  /** A line that is being read; it may come long after its question. */
  #line: Promise<string | null> | undefined;
  #closed = false;

  constructor(io: Io, ports: QuestionPromptPorts) {
    this.#io = io;
    this.#ports = ports;
    this.#style = styleOf(io, io.stderr);
  }

  ask(question: AskUser): void {
    if (this.#shown.has(question.request_id)) return;
    this.#shown.add(question.request_id);
    this.#queue.push(question);
    if (this.#current === undefined) this.#next();
  }

  /** The question is over, by this answer or another. */
  over(end: AskClosed): void {
    const at = this.#queue.findIndex(({ request_id }) => request_id === end.request_id);
    if (at >= 0) this.#queue.splice(at, 1);
    if (!this.#shown.delete(end.request_id)) return;
    this.#ports.say(closedLine(end, this.#style));
    if (this.#current?.request_id === end.request_id) this.#next();
  }

  /** Asks no more. */
  close(): void {
    this.#closed = true;
    this.#queue.length = 0;
    this.#current = undefined;
  }

  #next(): void {
    this.#current = this.#queue.shift();
    if (this.#current === undefined || this.#closed) return;
    void this.#answer(this.#current);
  }

  /** Asks all questions of one request, then sends the answers. */
  async #answer(ask: AskUser): Promise<void> {
    const left = this.#queue.length;
    const head = headLines(ask, this.#style, left === 0 ? "" : ` · 1 of ${left + 1}`);
    for (const line of head) this.#ports.say(line);
    const answers: AskAnswer[] = [];
    for (const [i, question] of Question.all(ask).entries()) {
      for (const line of questionLines(question, this.#style)) this.#ports.say(line);
      if (!question.isOpen) this.#ports.say(noteOf(question));
      if (i === 0) this.#hold();
      this.#io.stderr.write(`  answer (${timeLeft(ask, Date.now()) ?? "no time limit"}): `);
      const answer = await this.#readAnswer(ask, question);
      if (answer === null) return;
      answers.push(answer);
    }
    try {
      await this.#ports.send(ask.request_id, answers);
    } catch (error) {
      // Another client was faster, or the run has ended: its event says so, too.
      this.#ports.say(this.#style.dim(messageOf(error)));
      const isWrong = error instanceof SyscallError && error.code === "INVALID";
      if (isWrong && this.#current === ask && !this.#closed) await this.#answer(ask);
    }
  }

  #hold(): void {
    const { heldMs = HELD_MS } = this.#ports;
    this.#readable = heldMs === 0;
    if (!this.#readable)
      this.#io.timer(heldMs, () => {
        this.#readable = true;
      });
  }

  /** Reads lines until one answers the question; null when the request is over. */
  async #readAnswer(ask: AskUser, question: Question): Promise<AskAnswer | null> {
    for (;;) {
      const line = await this.#readLine();
      if (line === null) this.#ports.ended?.();
      if (this.#current !== ask || this.#closed || line === null) return null;
      const answer = this.#readable ? question.read(line) : null;
      if (answer !== null) return answer;
      const why = this.#readable ? "" : "typed before the question: ";
      this.#io.stderr.write(`  ${why}${howToAnswer(question)}: `);
    }
  }

  async #readLine(): Promise<string | null> {
    this.#line ??= this.#io.stdin.read().then((bytes) => bytes && new TextDecoder().decode(bytes));
    const line = await this.#line;
    this.#line = undefined;
    return line;
  }
}

/** What a line may be, beside a number. */
function noteOf({ isPermission, asked, letters }: Question): string {
  if (isPermission)
    return `  or ${letters}; after it a text: an instruction, a reason for a no, another rule to allow always`;
  return `  ${asked.multi ? "numbers separated by commas" : "a number"}, or your own words`;
}

function howToAnswer({ isPermission, isOpen, asked, letters }: Question): string {
  if (isOpen) return "write an answer";
  const numbers = asked.options.map((_, at) => at + 1).join(", ");
  return `choose ${numbers}, or ${isPermission ? letters : "write an answer"}`;
}
