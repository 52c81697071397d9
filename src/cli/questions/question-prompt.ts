/** Asks a run's questions at the terminal, as plain lines. */

import { messageOf } from "../../lib/error-detail.ts";
import { splitToolRules } from "../../lib/tool-rules.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { AskAnswer, AskClosed, AskQuestion, AskUser } from "../../protocol/methods.ts";
import type { Io } from "../io.ts";
import { printable } from "../output/format.ts";
import type { SendAnswer } from "../output/run-output.ts";
import { type Style, styleOf } from "../output/style.ts";
import {
  askerText,
  closedLine,
  defaultText,
  headerText,
  LETTERS,
  optionText,
  timeLeft,
  wholeLines,
  whyLines,
} from "./question-text.ts";
import { typedAnswer } from "./typed-answer.ts";

/** A line that comes sooner was typed before the question was seen. */
const HELD_MS = 1_000;

interface QuestionPromptPorts {
  send: SendAnswer;
  /** Prints a line. */
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
    const { bold, yellow, dim } = this.#style;
    const left = this.#queue.length;
    const count = left === 0 ? "" : dim(` · 1 of ${left + 1}`);
    this.#ports.say(yellow(`? ${askerText(ask)} needs your answer${count}`));
    if (ask.call) for (const line of wholeLines(ask)) this.#ports.say(`  ${bold(line)}`);
    for (const line of whyLines(ask)) this.#ports.say(dim(`  ${line}`));
    const answers: AskAnswer[] = [];
    for (const [i, question] of ask.questions.entries()) {
      this.#show(ask, question, i);
      const answer = await this.#readAnswer(ask, question);
      if (answer === null) return;
      answers.push(answer);
    }
    try {
      await this.#ports.send(ask.request_id, answers);
    } catch (error) {
      // Another client was faster, or the run has ended: its event says so, too.
      this.#ports.say(dim(messageOf(error)));
      const isWrong = error instanceof SyscallError && error.code === "INVALID";
      if (isWrong && this.#current === ask && !this.#closed) await this.#answer(ask);
    }
  }

  #show(ask: AskUser, question: AskQuestion, i: number): void {
    const { bold } = this.#style;
    if (!ask.call) {
      const lines = `${headerText(ask, i)}${printable(question.question)}`.split("\n");
      for (const line of lines) this.#ports.say(`  ${bold(line)}`);
    }
    for (const line of optionLines(ask, question)) this.#ports.say(line);
    if (i === 0) this.#hold();
    this.#io.stderr.write(`  answer (${timeLeft(ask, Date.now()) ?? "no time limit"}): `);
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
  async #readAnswer(ask: AskUser, question: AskQuestion): Promise<AskAnswer | null> {
    for (;;) {
      const line = await this.#readLine();
      if (line === null) this.#ports.ended?.();
      if (this.#current !== ask || this.#closed || line === null) return null;
      const answer = this.#readable ? parsed(ask, question, line) : null;
      if (answer !== null) return answer;
      const why = this.#readable ? "" : "typed before the question: ";
      this.#io.stderr.write(`  ${why}${howToAnswer(ask, question)}: `);
    }
  }

  async #readLine(): Promise<string | null> {
    this.#line ??= this.#io.stdin.read().then((bytes) => bytes && new TextDecoder().decode(bytes));
    const line = await this.#line;
    this.#line = undefined;
    return line;
  }
}

/** Choices that take rules and no text, so that a sentence that begins with "a" allows nothing. */
const WORDLESS: ReadonlySet<string> = new Set(["always", "always_project"]);

function choices({ options }: AskQuestion): Record<string, string> {
  const letters = new Map(Object.entries(LETTERS).map(([letter, id]) => [id, letter]));
  return Object.fromEntries(options.map(({ id }, i) => [letters.get(id) ?? String(i + 1), id]));
}

function optionLines(ask: AskUser, question: AskQuestion): string[] {
  const marks = Object.keys(choices(question));
  const lines = question.options.map((option, i) => `  ${marks[i]}  ${optionText(option)}`);
  const edits = question.options.some(({ id }) => WORDLESS.has(id)) ? ", after a or p another rule" : "";
  if (ask.call)
    return [...lines, `  after y an instruction may follow, after n a reason for the model${edits}`];
  const usual = defaultText(question);
  const how =
    lines.length === 0
      ? []
      : [question.multi ? "numbers separated by commas, or your own words" : "a number, or your own words"];
  const notes = [...how, ...(usual === null ? [] : [`an empty line: ${usual}`])];
  return notes.length === 0 ? lines : [...lines, `  ${notes.join("; ")}`];
}

function howToAnswer(ask: AskUser, question: AskQuestion): string {
  const marks = Object.keys(choices(question));
  if (ask.call) return `choose ${marks.join(", ")}`;
  return marks.length === 0 ? "write an answer" : `choose ${marks.join(", ")}, or write an answer`;
}

/** `y`, `n use make instead`; `1,3` or words for a question of the model's. null for a line that is no answer. */
function parsed(ask: AskUser, question: AskQuestion, line: string): AskAnswer | null {
  if (!ask.call) return typedAnswer(question, line);
  const [, word = "", text = ""] = /^\s*(\S+)\s*(.*?)\s*$/s.exec(line) ?? [];
  const options = choices(question);
  const asked = word.toLowerCase();
  const id = options[asked] ?? Object.values(options).find((one) => one === asked);
  if (id === undefined) return null;
  if (WORDLESS.has(id) && text !== "") {
    const rules = splitToolRules(text);
    return rules.every((rule) => /^[A-Za-z_][\w.:-]*\(.+\)$/s.test(rule)) ? { choices: [id], rules } : null;
  }
  return { choices: [id], ...(text !== "" && { text }) };
}
