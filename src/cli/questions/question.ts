/** One question of a run: its lines, its choices, and how an answer to it is read. Every view uses it. */

import { splitToolRules } from "../../lib/tool-rules.ts";
import type { AskAnswer, AskQuestion, AskUser } from "../../protocol/methods.ts";
import { printable } from "../output/format.ts";
import type { Style } from "../output/style.ts";
import { askerText, wholeLines, whyLines } from "./question-text.ts";

/** The letters that select the options of a permission. */
const LETTERS: Readonly<Record<string, string>> = { y: "yes", a: "always", p: "always_project", n: "no" };

/** One row of a question. The row without an id stands for the user's own words. */
export type Choice = Omit<AskQuestion["options"][number], "id"> & { id?: string };

export class Question {
  /** Whether a tool call may be made; else the model asks. */
  readonly isPermission: boolean;
  /** The options, and for a question of the model's a row for the user's own words. */
  readonly choices: readonly Choice[];
  readonly asked: AskQuestion;
  /** `Database (1/3): Which database?`; of a permission see `wholeLines`. */
  readonly text: string;

  constructor({ call, questions }: AskUser, index: number) {
    this.asked = questions[index] ?? { question: "", options: [], multi: false, text: true };
    this.isPermission = call !== null;
    const { options, header, question } = this.asked;
    const hasWords = !this.isPermission && options.length > 0;
    this.choices = hasWords ? [...options, { label: "something else: your own words" }] : options;
    const count = questions.length > 1 ? `${index + 1}/${questions.length}` : "";
    const parts = [header && printable(header), header && count ? `(${count})` : count].filter(Boolean);
    this.text = `${parts.length === 0 ? "" : `${parts.join(" ")}: `}${printable(question)}`;
  }

  static all(ask: AskUser): Question[] {
    return ask.questions.map((_, i) => new Question(ask, i));
  }

  /** Whether only a text can answer it. */
  get isOpen(): boolean {
    return this.choices.length === 0;
  }

  /** The answer that counts if none comes, for people; null: there is none. */
  get usual(): string | null {
    const { options, default: ids = [], default_text } = this.asked;
    const labels = options.filter(({ id }) => ids.includes(id)).map(({ label }) => printable(label));
    if (labels.length > 0) return labels.join(", ");
    return default_text === undefined ? null : printable(default_text);
  }

  get usualAnswer(): AskAnswer | null {
    const { default: choices = [], default_text: text } = this.asked;
    if (choices.length === 0 && text === undefined) return null;
    return { choices: [...choices], ...(text !== undefined && { text }) };
  }

  /** The letters of the options of a permission, such as `y, a, p, n`. */
  get letters(): string {
    const ids = this.asked.options.map(({ id }) => id);
    return Object.keys(LETTERS)
      .filter((letter) => ids.includes(LETTERS[letter] ?? ""))
      .join(", ");
  }

  /** The place of the choice that a key selects; -1 for any other key. */
  keyAt(key: string): number {
    if (/^[1-9]$/.test(key)) return Number(key) <= this.choices.length ? Number(key) - 1 : -1;
    const id = this.isPermission ? LETTERS[key.toLowerCase()] : undefined;
    return id === undefined ? -1 : this.choices.findIndex((choice) => choice.id === id);
  }

  /** What a text means beside this choice. With "always" it replaces the rules. */
  adds(at: number): "rules" | "reason" | "instruction" | "answer" {
    if (!this.isPermission) return "answer";
    const id = this.choices[at]?.id ?? "";
    return isAlways(id) ? "rules" : id === "no" ? "reason" : "instruction";
  }

  /** The answer with these options and a text, or null. In a question of the model's, a text replaces the option. */
  answer(ids: readonly string[], typed: string): AskAnswer | null {
    const text = typed.trim();
    if (this.isOpen && text === "") return this.usualAnswer;
    const choices = this.isPermission || this.asked.multi || text === "" ? [...ids] : [];
    if (choices.length === 0 && text === "") return null;
    if (choices.some(isAlways) && text !== "") return { choices, rules: splitToolRules(text) };
    return { choices, ...(text !== "" && { text }) };
  }

  /**
   * Reads a typed line: `y`, `n use make instead`; for a question of the model's `1,3`, a label or own words. An empty
   * line is the default answer. Returns null for a line that is no answer.
   */
  read(line: string): AskAnswer | null {
    const text = line.trim();
    if (this.isPermission) return this.#readPermission(text);
    if (text === "") return this.usualAnswer;
    const parts = this.asked.multi && this.#named(text) === undefined ? text.split(",") : [text];
    const ids = parts.flatMap((part) => this.#named(part.trim()) ?? []);
    if (ids.length === parts.length) return { choices: [...new Set(ids)] };
    // A wrong number is no answer, unless the options are numbers themselves.
    const isNumbers =
      /^\d+([\s,]+\d+)*$/.test(text) && !this.asked.options.some(({ label }) => /\d/.test(label));
    return this.asked.text && (this.isOpen || !isNumbers) ? { choices: [], text } : null;
  }

  /** A sentence that begins with "a" allows nothing: only rules may follow "always". */
  #readPermission(line: string): AskAnswer | null {
    const [, word = "", text = ""] = /^(\S+)\s*(.*)$/s.exec(line) ?? [];
    const named = this.choices.findIndex(({ id }) => id === word.toLowerCase());
    const at = named < 0 ? this.keyAt(word) : named;
    const { id } = this.choices[at] ?? {};
    if (id === undefined) return null;
    const isRules = splitToolRules(text).every((rule) => /^[A-Za-z_][\w.:-]*\(.+\)$/s.test(rule));
    return this.adds(at) === "rules" && text !== "" && !isRules ? null : this.answer([id], text);
  }

  #named(text: string): string | undefined {
    const { options } = this.asked;
    const named = options.find(({ label }) => label.toLowerCase() === text.toLowerCase());
    return (named ?? (/^\d+$/.test(text) ? options[Number(text) - 1] : undefined))?.id;
  }
}

/** `2 Postgres  a server`: a choice by its number. */
export function choiceText({ label, about }: Choice, at: number): string {
  return `${at + 1} ${printable(label)}${about ? `  ${printable(about)}` : ""}`;
}

/** The lines that say which agent asks, for which call and why. `more`: added to the first line. */
export function headLines(ask: AskUser, { bold, dim, yellow }: Style, more = ""): string[] {
  const call = ask.call ? wholeLines(ask).map((line) => `  ${bold(line)}`) : [];
  const why = whyLines(ask).map((line) => dim(`  ${line}`));
  return [`${yellow(`? ${askerText(ask)} needs your answer`)}${dim(more)}`, ...call, ...why];
}

/** The lines of one question with its choices. They follow `headLines`. */
export function questionLines(question: Question, { bold }: Style): string[] {
  const { isPermission, text, asked, usual } = question;
  return [
    ...(isPermission ? [] : text.split("\n").map(bold)),
    ...asked.options.map(choiceText),
    ...(isPermission || usual === null ? [] : [`an empty answer, or none: ${usual}`]),
  ].map((line) => `  ${line}`);
}

function isAlways(id: string): boolean {
  return id === "always" || id === "always_project";
}
