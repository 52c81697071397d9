/** Reads what a person typed as the answer to a question of a model. */

import type { AskAnswer, AskQuestion } from "../../protocol/methods.ts";

/**
 * A number or a label chooses an option, several are separated by commas; other words are an answer of one's own. An
 * empty text takes the default. Returns null for a text that is no answer.
 */
export function typedAnswer(question: AskQuestion, typed: string): AskAnswer | null {
  const text = typed.trim();
  const { options, multi } = question;
  if (text === "") return defaultAnswer(question);
  const whole = optionOf(question, text);
  if (whole !== undefined) return { choices: [whole] };
  if (multi && options.length > 0) {
    const parts = text.split(",").map((part) => part.trim());
    const choices = parts.flatMap((part) => optionOf(question, part) ?? []);
    if (choices.length === parts.length) return { choices: [...new Set(choices)] };
  }
  const isNumbers = /^\d+([\s,]+\d+)*$/.test(text);
  // A wrong number is no answer, unless the options are numbers themselves.
  if (options.length > 0 && isNumbers && !options.some(({ label }) => /\d/.test(label))) return null;
  return question.text ? { choices: [], text } : null;
}

/** What counts without an answer; null: nothing. */
export function defaultAnswer({ default: choices = [], default_text: text }: AskQuestion): AskAnswer | null {
  if (choices.length === 0 && text === undefined) return null;
  return { choices: [...choices], ...(text !== undefined && { text }) };
}

function optionOf({ options }: AskQuestion, text: string): string | undefined {
  const named = options.find(({ label }) => label.toLowerCase() === text.toLowerCase());
  const numbered = /^\d+$/.test(text) ? options[Number(text) - 1] : undefined;
  return (named ?? numbered)?.id;
}
