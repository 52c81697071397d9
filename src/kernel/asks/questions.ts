/** The questions that a driver asks by the service `ask`: their checks, and the reply to them. */

import { type AskQuestion, type AskReply, SyscallError } from "../../plugin/index.ts";
import type { AskAnswer, AskVerdict, AskQuestion as RecordedQuestion } from "../../run/ask-schema.ts";

const MAX_QUESTIONS = 10;
const MAX_OPTIONS = 20;
const MAX_CHARS = { question: 4_000, header: 80, label: 200, description: 1_000, default: 4_000 };

/** Checks the questions, and gives options their ids: "1", "2" and so on. `hide` redacts keys. */
export function recordedQuestions(
  questions: readonly AskQuestion[],
  hide: (text: string) => string,
): RecordedQuestion[] {
  if (!Array.isArray(questions) || questions.length === 0 || questions.length > MAX_QUESTIONS)
    throw wrong(`expected 1 to ${MAX_QUESTIONS} questions.`);
  return questions.map((asked, i) => recorded(asked, `question ${i + 1}`, hide));
}

function recorded(
  { question, header, options = [], multi_select, default: usual }: AskQuestion,
  where: string,
  hide: (text: string) => string,
): RecordedQuestion {
  const checked = (value: unknown, what: keyof typeof MAX_CHARS): string => {
    const max = MAX_CHARS[what];
    if (typeof value === "string" && value.trim() !== "" && value.length <= max) return hide(value.trim());
    throw wrong(`${where}: expected "${what}" as a text of 1 to ${max} characters.`);
  };
  if (!Array.isArray(options) || options.length > MAX_OPTIONS)
    throw wrong(`${where}: expected at most ${MAX_OPTIONS} options.`);
  const offered = options.map(({ label, description }, i) => ({
    id: String(i + 1),
    label: checked(label, "label"),
    ...(description && { about: checked(description, "description") }),
  }));
  const labels = offered.map(({ label }) => label);
  const twice = labels.find((label, i) => labels.indexOf(label) !== i);
  if (twice !== undefined) throw wrong(`${where}: two options have the label ${JSON.stringify(twice)}.`);
  const multi = multi_select === true;
  const defaults = (usual === undefined ? [] : [usual].flat()).map((one) => checked(one, "default"));
  if (defaults.length > 1 && !multi) throw wrong(`${where}: it takes one answer, so it has one default.`);
  const unknown = defaults.find((label) => labels.length > 0 && !labels.includes(label));
  if (unknown !== undefined)
    throw wrong(
      `${where}: the default ${JSON.stringify(unknown)} is none of its options: ${labels.join(", ")}.`,
    );
  return {
    question: checked(question, "question"),
    ...(header && { header: checked(header, "header") }),
    options: offered,
    multi,
    text: true,
    ...(defaults.length > 0 &&
      (labels.length > 0
        ? { default: offered.filter(({ label }) => defaults.includes(label)).map(({ id }) => id) }
        : { default_text: defaults.join(", ") })),
  };
}

/** The defaults of the questions; an empty answer where there is none. */
export function defaultsOf(questions: readonly RecordedQuestion[]): AskAnswer[] {
  return questions.map(({ default: choices = [], default_text: text }) => ({
    choices: [...choices],
    ...(text && { text }),
  }));
}

export function replyTo(
  questions: readonly RecordedQuestion[],
  { by, answers = [] }: Pick<AskVerdict, "by" | "answers">,
): AskReply {
  const replies = questions.map((asked, i) => ({
    question: asked.question,
    answer: wordsOf(asked, answers[i] ?? { choices: [] }),
  }));
  const missing = replies.filter(({ answer }) => answer.length === 0).length;
  const isEmpty = missing === replies.length;
  const who = by === "on_ask" || by === "rule" ? (isEmpty ? "denied" : "default") : by;
  const why = {
    user: isEmpty ? "The user gave no answer." : "The user skipped the questions without an answer.",
    default: "The user could not be asked, so the defaults count.",
    denied: "The user cannot be asked now.",
    expiry: `No answer came in time${isEmpty ? "" : ", so the defaults count"}.`,
  }[who];
  const next =
    missing === 0
      ? ""
      : " For questions without an answer: decide by yourself if you can, do only what is safe either way, and name in your final answer what you have assumed.";
  const note = who === "user" && missing === 0 ? undefined : why + next;
  return { answers: replies, by: who, ...(note && { note }) };
}

/** All answers on one line, for people. */
export function answersText(questions: readonly RecordedQuestion[], answers: readonly AskAnswer[]): string {
  const words = questions.map((asked, i) => wordsOf(asked, answers[i] ?? { choices: [] }).join(", "));
  return words.map((text) => text || "no answer").join("; ");
}

/** The chosen labels, then the user's own words. */
function wordsOf({ options }: RecordedQuestion, { choices, text }: AskAnswer): string[] {
  const labels = options.filter(({ id }) => choices.includes(id)).map(({ label }) => label);
  return text ? [...labels, text] : labels;
}

function wrong(problem: string): SyscallError {
  return new SyscallError("INVALID", `ask: ${problem}`);
}
