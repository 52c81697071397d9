/** Asks a run's questions at the terminal, as plain lines. */

import type { AskAnswer, AskClosed, AskUser } from "../protocol/methods.ts";
import type { Io } from "./io.ts";
import { askedLines, askerText, closedLine, timeLeft, whyLines } from "./output/ask.ts";
import { printable } from "./output/format.ts";
import type { SendAnswer } from "./output/run.ts";
import { type Style, styleOf } from "./output/style.ts";

/** A line that comes sooner was typed before the question was seen. */
const HELD_MS = 1_000;

interface AskPromptPorts {
  send: SendAnswer;
  /** Prints a line. */
  say(line: string): void;
}

/**
 * Asks one question at a time. The first answer counts, here or at another client. What was typed before a question was
 * seen never answers it, and an empty line answers nothing.
 */
export class AskPrompt {
  readonly #io: Io;
  readonly #ports: AskPromptPorts;
  readonly #style: Style;
  readonly #queue: AskUser[] = [];
  /** Questions that were shown here and have no end yet. */
  readonly #shown = new Set<string>();
  #current: AskUser | undefined;
  #readable = false;
  /** A line that is being read; it may come long after its question. */
  #line: Promise<string | null> | undefined;
  #closed = false;

  constructor(io: Io, ports: AskPromptPorts) {
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
    this.#show(this.#current);
    void this.#readAnswer(this.#current);
  }

  #show(question: AskUser): void {
    const { bold, dim, yellow } = this.#style;
    const left = this.#queue.length;
    const count = left === 0 ? "" : dim(` · 1 of ${left + 1}`);
    const [first = "", ...rest] = askedLines(question);
    this.#ports.say(yellow(`? ${askerText(question)} needs your answer${count}`));
    this.#ports.say(`  ${bold(first)}`);
    for (const line of rest) this.#ports.say(`  ${bold(line)}`);
    for (const line of whyLines(question)) this.#ports.say(dim(`  ${line}`));
    this.#ports.say(optionsText(question));
    this.#readable = false;
    this.#io.timer(HELD_MS, () => {
      this.#readable = true;
    });
    this.#io.stderr.write(`  answer (${timeLeft(question, Date.now())}): `);
  }

  /** Reads lines until one answers the question, or it is over. */
  async #readAnswer(question: AskUser): Promise<void> {
    while (this.#current === question && !this.#closed) {
      const line = await this.#readLine();
      if (this.#current !== question || this.#closed) return;
      if (line === null) return;
      const answer = this.#readable ? parseAnswer(question, line) : null;
      if (answer !== null) {
        await this.#send(question, answer);
        return;
      }
      const why = this.#readable ? "" : "typed before the question: ";
      this.#io.stderr.write(`  ${why}choose ${letters(question).join(", ")}: `);
    }
  }

  async #readLine(): Promise<string | null> {
    this.#line ??= this.#io.stdin.read().then((bytes) => bytes && new TextDecoder().decode(bytes));
    const line = await this.#line;
    this.#line = undefined;
    return line;
  }

  async #send(question: AskUser, answer: AskAnswer): Promise<void> {
    try {
      await this.#ports.send(question.request_id, [answer]);
    } catch (error) {
      // Another client was faster, or the run has ended: its event says so, too.
      this.#ports.say(this.#style.dim(error instanceof Error ? error.message : String(error)));
    }
  }
}

/** The letters of the choices: the first letters of their ids, unless they are numbers. */
function letters(question: AskUser): string[] {
  return Object.keys(choices(question));
}

const LETTERS: Readonly<Record<string, string>> = { yes: "y", always: "a", always_project: "p", no: "n" };

function choices({ questions: [first] }: AskUser): Record<string, string> {
  const options = first?.options ?? [];
  return Object.fromEntries(options.map(({ id }, i) => [LETTERS[id] ?? String(i + 1), id]));
}

function optionsText(question: AskUser): string {
  const byId = new Map(Object.entries(choices(question)).map(([letter, id]) => [id, letter]));
  const lines = (question.questions[0]?.options ?? []).map(
    ({ id, label, about }) =>
      `  ${byId.get(id)}  ${printable(label)}${about ? ` (${printable(about)})` : ""}`,
  );
  const more = question.call ? ["  after y an instruction may follow, after n a reason for the model"] : [];
  return [...lines, ...more].join("\n");
}

/** `y`, `n use make instead`. null for a line that is no answer. */
function parseAnswer(question: AskUser, line: string): AskAnswer | null {
  const [, word = "", text = ""] = /^\s*(\S+)\s*(.*?)\s*$/s.exec(line) ?? [];
  const options = choices(question);
  const asked = word.toLowerCase();
  const id = options[asked] ?? Object.values(options).find((one) => one === asked);
  if (id === undefined) return null;
  return { choices: [id], ...(text !== "" && { text }) };
}
