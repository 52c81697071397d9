/** A question to a person as a block of the live view: a pure component of its state, keys and lines. */

import { matchesKey } from "@earendil-works/pi-tui/dist/keys.js";
import type { AskAnswer, AskUser } from "../../../protocol/methods.ts";
import type { TerminalSize } from "../../io.ts";
import { printable } from "../../output/format.ts";
import { choiceText, Question } from "../../questions/question.ts";
import { askedLines, askerText, wholeLines, whyLines } from "../../questions/question-text.ts";
import { cutTo, type Look, wrapTo } from "../look.ts";

export interface QuestionState {
  /** Answers to the questions before the current one. */
  given: readonly AskAnswer[];
  /** The option that Enter chooses; after the last one of a model's question: the person's own words. */
  selected: number;
  /** The options that are marked, where several may be chosen. */
  marked: readonly string[];
  /** The text that is typed: added to the selected option, or the person's own answer. null: none is typed. */
  text: string | null;
  /** Characters that have just selected options. If they turn out to begin a text, `before` is restored. */
  typed: { keys: string; before: QuestionState } | null;
}

/** The state of the question after those in `given`: its default is chosen, and one without options takes a text. */
export function freshQuestion({ questions }: AskUser, given: readonly AskAnswer[] = []): QuestionState {
  const { options = [], multi = false, default: usual = [] } = questions[given.length] ?? {};
  const isPermission = options.some(({ id }) => id === "no");
  const at = isPermission ? 0 : options.findIndex(({ id }) => usual.includes(id));
  const marked = multi ? usual : [];
  return { given, selected: Math.max(0, at), marked, text: options.length === 0 ? "" : null, typed: null };
}

/** The effect of a key: a new state, or all answers; null for a key without a meaning here. `interrupts`: by Esc. */
export type QuestionResult = { state: QuestionState } | { answers: AskAnswer[]; interrupts?: boolean } | null;

/** Enter answers, and Esc refuses. A number or a letter only selects an option: it may begin a sentence. */
export function questionKey(ask: AskUser, state: QuestionState, data: string): QuestionResult {
  const question = questionOf(ask, state);
  if (state.text !== null) return textKey(ask, state, state.text, data);
  if (isPrintable(data)) return typedKey(question, state, data);
  if (matchesKey(data, "escape")) return refused(ask);
  if (matchesKey(data, "up")) return moved(ask, state, -1);
  if (matchesKey(data, "down")) return moved(ask, state, 1);
  if (matchesKey(data, "left")) return back(ask, state);
  if (matchesKey(data, "tab"))
    return question.asked.text
      ? { state: { ...state, text: firstText(ask, question, state), typed: null } }
      : null;
  if (matchesKey(data, "backspace")) return state.typed === null ? null : { state: state.typed.before };
  return matchesKey(data, "enter") ? chosen(ask, state) : null;
}

/** A pasted text selects no option: it is added to the typed text, or begins an own answer. null for a permission. */
export function questionPaste(ask: AskUser, state: QuestionState, text: string): QuestionResult {
  const line = text.replaceAll("\n", " ");
  if (state.text !== null) return { state: { ...state, text: state.text + line } };
  const question = questionOf(ask, state);
  return question.isPermission ? null : ownWords(question, state, line);
}

/** What the person has typed in own words: an answer, a reason or an instruction. */
export function wordsOf(ask: AskUser, state: QuestionState): string {
  return questionOf(ask, state).adds(state.selected) === "rules" ? "" : (state.text ?? "");
}

/** One character that could be part of a text. */
export function isPrintable(data: string): boolean {
  return /^[^\p{Cc}]/u.test(data);
}

interface QuestionSize extends TerminalSize {
  /** How many questions there are with this one. */
  waiting: number;
  /** How long it still waits; null: as long as the conversation is open. */
  left: string | null;
  /** The input line below has a message: Enter sends it. */
  isBeside?: boolean;
  /** Esc is no key of the question. */
  escLeaves?: true;
}

/** The block in at most `rows` lines, and whether it shows only a part of the call. */
export function questionView(
  ask: AskUser,
  state: QuestionState,
  { columns, rows, waiting, left, isBeside = false, escLeaves }: QuestionSize,
  look: Look,
): { lines: string[]; isCut: boolean } {
  const question = questionOf(ask, state);
  const count = waiting > 1 ? look.dim(`${look.glyph.dot}1 of ${waiting}`) : "";
  const head = `${look.yellow(look.bold(`? ${askerText(ask)} needs your answer`))}${count}`;
  const options = question.choices.flatMap((_, at) => optionLines(question, state, at, columns, look));
  const label = look.cyan(`${TYPED[question.adds(state.selected)].label}: `);
  const words = state.text === null ? null : `  ${label}${printable(state.text)}${look.mark.bar}`;
  const typed = words === null ? [] : wrapTo(words, columns);
  const keys = isBeside ? BESIDE : hintOf(question, state, escLeaves ? "" : ", Esc: no");
  const time = left === null ? "" : `${look.glyph.dot}${left} left`;
  const bottom = [...options, ...typed, look.dim(cutTo(`  ${keys}${time}`, columns, look))];
  const why = whyLines(ask)
    .flatMap((line) => wrapTo(`  ${line}`, columns))
    .map(look.dim);
  const body = (ask.call ? askedLines(ask) : question.text.split("\n"))
    .flatMap((line) => wrapTo(line, columns - 2))
    .map((line) => `  ${line}`);
  // The body is shortened first: the choices stay visible.
  const room = Math.max(1, rows - bottom.length - why.length - 1);
  const more = look.dim(`  ${look.mark.ellipsis} ${body.length - room + 1} more lines`);
  const shown = body.length <= room ? body : [...body.slice(0, room - 1), more];
  const lines = [cutTo(head, columns, look), ...shown.map((line) => look.bold(line)), ...why, ...bottom];
  const isCut = body.length > room || lines.length > rows || askedLines(ask).length < wholeLines(ask).length;
  return { lines: lines.slice(-rows), isCut };
}

const BESIDE = "Enter sends your message, an arrow key turns to the question";

/** A number or a letter selects. Other text is an own answer; null for a permission, where it is a message. */
function typedKey(question: Question, state: QuestionState, key: string): QuestionResult {
  const { keys, before } = state.typed ?? { keys: "", before: state };
  const typed = { keys: keys + key, before };
  const { multi, options } = question.asked;
  if (multi && key === " ") return { state: { ...toggled(question, state), typed } };
  // Several numbers select one after the other; a second letter makes a word.
  const isChoice = keys === "" || /^[\d ]+$/.test(typed.keys);
  const at = isChoice ? question.keyAt(key) : -1;
  if (at < 0) return question.isPermission ? null : ownWords(question, state, key);
  if (at === options.length) return { state: { ...state, selected: at, text: "", typed: null } };
  const next = { ...state, selected: at };
  return { state: { ...(multi ? toggled(question, next) : next), typed } };
}

/** Begins an own answer; characters that had selected options are its beginning. */
function ownWords({ asked: { options } }: Question, state: QuestionState, text: string): QuestionResult {
  const { keys, before } = state.typed ?? { keys: "", before: state };
  const words = (keys + text).trimStart();
  return { state: words === "" ? state : { ...before, selected: options.length, text: words } };
}

function textKey(ask: AskUser, state: QuestionState, text: string, data: string): QuestionResult {
  const isOnly = questionOf(ask, state).isOpen;
  if (matchesKey(data, "escape") && isOnly) return refused(ask);
  if (matchesKey(data, "escape") || matchesKey(data, "tab"))
    return { state: isOnly ? state : { ...state, text: null } };
  if (matchesKey(data, "enter")) return chosen(ask, state);
  if (matchesKey(data, "left") && text === "") return back(ask, state);
  if (matchesKey(data, "backspace")) return { state: { ...state, text: [...text].slice(0, -1).join("") } };
  if (matchesKey(data, "ctrl+u")) return { state: { ...state, text: "" } };
  return { state: isPrintable(data) ? { ...state, text: text + data } : state };
}

function chosen(ask: AskUser, state: QuestionState): QuestionResult {
  const question = questionOf(ask, state);
  const { id } = question.choices[state.selected] ?? {};
  if (id === undefined && state.text === null) return { state: { ...state, text: "" } };
  const ids = question.asked.multi ? state.marked : id === undefined ? [] : [id];
  const answer = question.answer(ids, state.text ?? "");
  if (answer === null) return { state };
  const given = [...state.given, answer];
  return given.length < ask.questions.length ? { state: freshQuestion(ask, given) } : { answers: given };
}

/** With "always" the person edits its rules; any other text begins empty. */
function firstText({ call }: AskUser, question: Question, { selected }: QuestionState): string {
  return question.adds(selected) === "rules" ? (call?.always.join(", ") ?? "") : "";
}

/** No to a permission; the model's questions stay without an answer. */
function refused({ call, questions }: AskUser): QuestionResult {
  return { answers: questions.map(() => ({ choices: call ? ["no"] : [] })), interrupts: true };
}

function moved(ask: AskUser, state: QuestionState, by: number): QuestionResult {
  const count = Math.max(1, questionOf(ask, state).choices.length);
  return { state: { ...state, selected: (state.selected + by + count) % count, typed: null } };
}

function back(ask: AskUser, { given }: QuestionState): QuestionResult {
  return given.length === 0 ? null : { state: freshQuestion(ask, given.slice(0, -1)) };
}

function toggled({ choices }: Question, state: QuestionState): QuestionState {
  const { id } = choices[state.selected] ?? {};
  if (id === undefined) return state;
  const { marked } = state;
  return { ...state, marked: marked.includes(id) ? marked.filter((one) => one !== id) : [...marked, id] };
}

function optionLines(
  question: Question,
  { selected, marked }: QuestionState,
  at: number,
  columns: number,
  look: Look,
): string[] {
  const choice = question.choices[at] ?? { label: "" };
  const hasBox = question.asked.multi && choice.id !== undefined;
  const box = hasBox ? `[${marked.includes(choice.id ?? "") ? "x" : " "}] ` : "";
  const indent = " ".repeat(4 + box.length);
  const isSelected = at === selected;
  const text = `${isSelected ? look.mark.message : " "} ${choiceText({ ...choice, label: `${box}${choice.label}` }, at)}`;
  return wrapTo(text, columns - indent.length)
    .map((line, i) => (i === 0 ? line : `${indent}${line}`))
    .map((line) => (isSelected ? look.cyan(line) : line));
}

/** A typed text, by what it adds: its label, and what the hint says of Tab, which begins it. */
const TYPED = {
  rules: { label: "always allow", tab: "edits the rule" },
  reason: { label: "why not", tab: "adds a reason" },
  instruction: { label: "instruction", tab: "adds an instruction" },
  answer: { label: "your answer", tab: "" },
};

function hintOf(question: Question, { text, selected, given }: QuestionState, esc: string): string {
  const { isPermission, isOpen, asked, usual } = question;
  const before = given.length > 0 && !isPermission ? ", Left goes back" : "";
  const none = esc && `${esc} answer`;
  if (isOpen) return `Enter sends it${usual === null ? "" : `, empty: ${usual}`}${before}${none}`;
  if (text !== null) return `Enter sends it, ${esc ? "Esc" : "Tab"} goes back`;
  if (!isPermission) return `${asked.multi ? "Space marks, " : ""}Enter chooses${before}${none}`;
  return `Enter chooses${asked.text ? `, Tab ${TYPED[question.adds(selected)].tab}` : ""}${esc}`;
}

function questionOf(ask: AskUser, { given }: QuestionState): Question {
  return new Question(ask, given.length);
}
