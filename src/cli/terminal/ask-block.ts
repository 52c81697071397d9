/** A question to a person as a block of the live view: a pure component of its state, keys and lines. */

import { matchesKey } from "@earendil-works/pi-tui/dist/keys.js";
import type { AskAnswer, AskQuestion, AskUser } from "../../protocol/methods.ts";
import { askedLines, askerText, whyLines } from "../output/ask.ts";
import { printable } from "../output/format.ts";
import { cutTo, type Look, wrapTo } from "./look.ts";

/** What the person has chosen and typed so far. */
export interface AskState {
  /** Answers to the questions before the current one. */
  given: readonly AskAnswer[];
  /** The option that Enter chooses. */
  selected: number;
  /** The options that are marked, where several may be chosen. */
  marked: readonly string[];
  /** The text that is being added to the selected option; null: none is typed. */
  text: string | null;
}

export const FRESH_ASK: AskState = { given: [], selected: 0, marked: [], text: null };

/** What a key did: a new state, all answers, or nothing. `interrupts`: the person wants to say something else. */
export type AskResult = { state: AskState } | { answers: AskAnswer[]; interrupts?: boolean } | null;

/** The letters of a permission's choices. */
const LETTERS: Readonly<Record<string, string>> = { y: "yes", a: "always", p: "always_project", n: "no" };
/** These are chosen in two steps, so that the person has read what they allow and for how long. */
const CONFIRMED: ReadonlySet<string> = new Set(["always", "always_project"]);

export function askKey(ask: AskUser, state: AskState, data: string): AskResult {
  const question = questionOf(ask, state);
  if (state.text !== null) return textKey(ask, state, state.text, data);
  if (matchesKey(data, "escape")) return { answers: [...ask.questions.map(refusal)], interrupts: true };
  if (matchesKey(data, "up") || matchesKey(data, "shift+tab")) return moved(question, state, -1);
  if (matchesKey(data, "down")) return moved(question, state, 1);
  if (matchesKey(data, "tab")) return question.text ? { state: { ...state, text: "" } } : null;
  if (matchesKey(data, "enter")) return chosen(ask, state);
  if (question.multi && data === " ") return { state: toggled(question, state) };
  const at = optionOf(question, data);
  if (at < 0) return null;
  const next = { ...state, selected: at };
  const id = question.options[at]?.id ?? "";
  if (question.multi) return { state: toggled(question, next) };
  return CONFIRMED.has(id) && state.selected !== at ? { state: next } : chosen(ask, next);
}

/** A pasted text is part of the instruction, and chooses nothing. */
export function askPaste(state: AskState, text: string): AskResult {
  return state.text === null ? null : { state: { ...state, text: state.text + text.replaceAll("\n", " ") } };
}

/** The block, at most `rows` lines. `waiting`: how many questions there are with this one. */
export function askLines(
  ask: AskUser,
  state: AskState,
  { columns, rows, waiting, left }: { columns: number; rows: number; waiting: number; left: string },
  look: Look,
): string[] {
  const question = questionOf(ask, state);
  const count = waiting > 1 ? look.dim(`${look.glyph.dot}1 of ${waiting}`) : "";
  const head = `${look.yellow(look.bold(`? ${askerText(ask)} needs your answer`))}${count}`;
  const options = question.options.flatMap((_, at) => optionLines(question, state, at, columns, look));
  const hint = look.dim(cutTo(`  ${hintOf(question, state)}${look.glyph.dot}${left} left`, columns, look));
  const typed =
    state.text === null
      ? []
      : [`  ${look.cyan(`${textLabel(question, state)}: `)}${printable(state.text)}${look.mark.bar}`];
  const bottom = [...options, ...typed.flatMap((line) => wrapTo(line, columns)), hint];
  const why = [...(ask.call ? whyLines(ask) : [])]
    .flatMap((line) => wrapTo(`  ${line}`, columns))
    .map(look.dim);
  const body = (ask.call ? askedLines(ask) : [printable(question.question)]).flatMap((line) =>
    wrapTo(`  ${line}`, columns),
  );
  const room = Math.max(1, rows - bottom.length - why.length - 1);
  const shown =
    body.length <= room
      ? body
      : [
          ...body.slice(0, room - 1),
          look.dim(`  ${look.mark.ellipsis} ${body.length - room + 1} more lines`),
        ];
  return [cutTo(head, columns, look), ...shown.map((line) => look.bold(line)), ...why, ...bottom].slice(
    -rows,
  );
}

function textKey(ask: AskUser, state: AskState, text: string, data: string): AskResult {
  if (matchesKey(data, "escape") || matchesKey(data, "tab")) return { state: { ...state, text: null } };
  if (matchesKey(data, "enter")) return chosen(ask, state);
  if (matchesKey(data, "backspace")) return { state: { ...state, text: [...text].slice(0, -1).join("") } };
  if (matchesKey(data, "ctrl+u")) return { state: { ...state, text: "" } };
  if (isControl(data)) return { state };
  return { state: { ...state, text: text + data } };
}

function chosen(ask: AskUser, state: AskState): AskResult {
  const question = questionOf(ask, state);
  const option = question.options[state.selected]?.id;
  const choices = question.multi ? [...state.marked] : option === undefined ? [] : [option];
  const text = state.text?.trim() ?? "";
  if (choices.length === 0 && text === "") return { state };
  const given = [...state.given, { choices, ...(text !== "" && { text }) }];
  if (given.length < ask.questions.length) return { state: { ...FRESH_ASK, given } };
  return { answers: given };
}

/** No, or the default of a question that has no such choice. */
function refusal({ options, default: usual = [] }: AskQuestion): AskAnswer {
  if (options.some(({ id }) => id === "no")) return { choices: ["no"] };
  return usual.length > 0 ? { choices: [...usual] } : { choices: [], text: "The user did not answer." };
}

function moved({ options }: AskQuestion, state: AskState, by: number): AskResult {
  const count = Math.max(1, options.length);
  return { state: { ...state, selected: (state.selected + by + count) % count } };
}

function toggled({ options }: AskQuestion, state: AskState): AskState {
  const id = options[state.selected]?.id;
  if (id === undefined) return state;
  const { marked } = state;
  return { ...state, marked: marked.includes(id) ? marked.filter((one) => one !== id) : [...marked, id] };
}

/** The option of a number or, in a permission, of a letter; -1 for any other key. */
function optionOf({ options }: AskQuestion, data: string): number {
  if (/^[1-9]$/.test(data)) return Number(data) <= options.length ? Number(data) - 1 : -1;
  const id = LETTERS[data.toLowerCase()];
  return id === undefined ? -1 : options.findIndex((option) => option.id === id);
}

function optionLines(
  { options, multi }: AskQuestion,
  { selected, marked }: AskState,
  at: number,
  columns: number,
  look: Look,
): string[] {
  const option = options[at];
  if (!option) return [];
  const isSelected = at === selected;
  const box = multi ? (marked.includes(option.id) ? "[x] " : "[ ] ") : "";
  const text = `${isSelected ? look.mark.message : " "} ${at + 1} ${box}${printable(option.label)}`;
  const about = option.about ? `  ${printable(option.about)}` : "";
  const indent = " ".repeat(4 + box.length);
  const lines = wrapTo(`${text}${about}`, columns - indent.length);
  return lines
    .map((line, i) => (i === 0 ? line : `${indent}${line}`))
    .map((line) => (isSelected ? look.cyan(line) : line));
}

function hintOf(question: AskQuestion, { text, selected }: AskState): string {
  if (text !== null) return "Enter sends it, Esc goes back";
  const id = question.options[selected]?.id ?? "";
  const add = question.text ? `, Tab adds ${id === "no" ? "a reason" : "an instruction"}` : "";
  return `${question.multi ? "Space marks, " : ""}Enter chooses${add}, Esc: no`;
}

function textLabel({ options }: AskQuestion, { selected }: AskState): string {
  return options[selected]?.id === "no" ? "why not" : "instruction";
}

function questionOf({ questions }: AskUser, { given }: AskState): AskQuestion {
  return questions[given.length] ?? { question: "", options: [], multi: false, text: true };
}

function isControl(data: string): boolean {
  const code = data.codePointAt(0) ?? 0;
  return code < 0x20 || code === 0x7f;
}
