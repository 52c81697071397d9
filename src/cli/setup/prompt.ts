/** Asks questions at the terminal, line by line: texts, secrets and choices. */

import { SyscallError } from "../../plugin/index.ts";
import type { Io } from "../io.ts";
import { printable } from "../output/format.ts";
import { Keyboard } from "../terminal/keyboard.ts";

/** One line of a list to choose from. */
export interface Item<T> {
  name: string;
  about?: string;
  value: T;
}

export function item<T>(name: string, about: string, value: T): Item<T> {
  return { name, about, value };
}

interface Question {
  /** The answer to an empty line. */
  preset?: string;
  /** The answer is not shown. */
  hidden?: boolean;
  /** What an answer may begin with. The rest of any other is not shown: it may be a key. */
  begins?: (text: string) => boolean;
}

interface Line {
  text: string;
  /** As much of it as is on the screen. */
  shown: string;
  begins: (text: string) => boolean;
  done(text: string): void;
}

const ENTER = ["\r", "\n"];
const ERASE = ["\u007f", "\b"];
const ERASE_LINE = "\u0015";
const END = "\u0004";
/** Longer answers are mistakes, such as a pasted file. */
const MAX_ANSWER = 4096;
/** In fewer columns words are broken anyway. */
const MIN_COLUMNS = 20;

export class Prompt implements Disposable {
  readonly #io: Io;
  readonly #cancelled = Promise.withResolvers<never>();
  readonly #off: (() => void)[];
  readonly #keyboard: Keyboard | null;
  #line: Line | undefined;

  private constructor(io: Io) {
    this.#io = io;
    // It may reject while nothing waits for it.
    this.#cancelled.promise.catch(() => undefined);
    this.#off = (["SIGINT", "SIGTERM", "SIGHUP"] as const).map((name) =>
      io.onSignal(name, () => this.#cancel()),
    );
    this.#keyboard = Keyboard.open(io, {
      key: (data) => this.#key(data),
      paste: (text) => this.#paste(text),
    });
  }

  /** null when no user is at a terminal. */
  static open(io: Io): Prompt | null {
    if (io.env.CI || io.stdin.kind !== "tty" || io.terminal() === null) return null;
    const prompt = new Prompt(io);
    if (prompt.#keyboard !== null) return prompt;
    prompt[Symbol.dispose]();
    return null;
  }

  [Symbol.dispose](): void {
    this.#keyboard?.close();
    for (const off of this.#off) off();
  }

  /** `indent`: the column of further lines, so that a list stays one. */
  say(text: string, indent = 0): void {
    this.#io.stderr.write(`${this.#wrapped(text, indent)}\n`);
  }

  /** Waits for work, or fails with CANCELLED at Ctrl-C. */
  during<T>(work: Promise<T>): Promise<T> {
    return Promise.race([work, this.#cancelled.promise]);
  }

  /** One line, trimmed. Fails with CANCELLED at Ctrl-C, and at Ctrl-D on an empty line. */
  async ask(question: string, { preset, hidden = false, begins }: Question = {}): Promise<string> {
    const shown = `${question}${preset === undefined ? "" : ` [${preset}]`}:`;
    this.#io.stderr.write(`${this.#wrapped(shown)} `);
    const { promise, resolve } = Promise.withResolvers<string>();
    this.#line = { text: "", shown: "", begins: begins ?? (() => !hidden), done: resolve };
    try {
      const text = (await this.during(promise)).trim();
      return text === "" ? (preset ?? "") : text;
    } finally {
      this.#line = undefined;
      this.#io.stderr.write("\n");
    }
  }

  /** One of the items, by its number or name; null for "back". */
  async choose<T>(
    question: string,
    items: readonly Item<T>[],
    o: { back?: boolean } = {},
  ): Promise<T | null> {
    const width = Math.max(...items.map(({ name }) => name.length));
    this.say(question);
    for (const [index, { name, about = "" }] of items.entries()) {
      this.say(
        `  ${String(index + 1).padStart(2)}  ${printable(name).padEnd(width)}  ${printable(about)}`.trimEnd(),
        width + 8,
      );
    }
    if (o.back) this.say("   0  back");
    const numbers = items.map((_, at) => String(at + 1));
    const answers = ["0", ...numbers, ...items.map(({ name }) => name)];
    const begins = (text: string): boolean => answers.some((one) => one.startsWith(text));
    for (;;) {
      const answer = await this.ask("Number or name", { preset: "1", begins });
      if (o.back && answer === "0") return null;
      const [fitting, ...more] = items.filter(({ name }) => name.startsWith(answer));
      const named = items.find(({ name }) => name === answer) ?? (more.length === 0 ? fitting : undefined);
      const item = items[Number(answer) - 1] ?? named;
      if (item !== undefined) return item.value;
      this.say(
        `Expected a number from ${o.back ? 0 : 1} to ${items.length}, or a name of the list. Nothing else is shown.`,
      );
    }
  }

  /** In lines of whole words, as a terminal does not do by itself. */
  #wrapped(text: string, indent = 0): string {
    const { columns } = this.#io.stderr;
    const room = columns - indent;
    if (Bun.stringWidth(text) < columns || room < MIN_COLUMNS) return text;
    const head = text.slice(0, indent);
    const lines = Bun.wrapAnsi(text.slice(indent), room - 1).split("\n");
    return `${head}${lines.join(`\n${" ".repeat(indent)}`)}`;
  }

  #cancel(): void {
    this.#cancelled.reject(new SyscallError("CANCELLED", "stopped; nothing was changed"));
  }

  #paste(text: string): void {
    for (const character of text.split("\n")[0] ?? "") this.#key(character);
  }

  #key(data: string): void {
    const line = this.#line;
    if (line === undefined) return;
    if (ENTER.includes(data)) line.done(line.text);
    else if (data === END) {
      if (line.text === "") this.#cancel();
    } else if (ERASE.includes(data)) this.#erase(line, 1);
    else if (data === ERASE_LINE) this.#erase(line, line.text.length);
    else if (!/\p{Cc}/u.test(data) && line.text.length + data.length <= MAX_ANSWER) {
      const isShown = line.shown === line.text && line.begins(line.text + data);
      line.text += data;
      if (!isShown) return;
      line.shown = line.text;
      this.#io.stderr.write(data);
    }
  }

  #erase(line: Line, count: number): void {
    const characters = [...line.text];
    line.text = characters.slice(0, Math.max(0, characters.length - count)).join("");
    const columns = Bun.stringWidth(line.shown.slice(line.text.length));
    line.shown = line.shown.slice(0, line.text.length);
    if (columns > 0) this.#io.terminal()?.write("\b \b".repeat(columns));
  }
}
