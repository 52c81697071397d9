/** Checks answers against their questions. */

import { SyscallError } from "../../plugin/index.ts";
import type { AskAnswer, AskQuestion, OpenAsk } from "../../store/runs/ask-schema.ts";

/** Fails with INVALID, which names the choices. */
export function checkAnswers(
  { id, questions }: Pick<OpenAsk, "id" | "questions">,
  answers: readonly AskAnswer[],
): void {
  if (answers.length !== questions.length) {
    throw new SyscallError(
      "INVALID",
      `Question ${id} expects ${questions.length} answers, one for each of its questions, got ${answers.length}.`,
    );
  }
  for (const [i, question] of questions.entries()) checkAnswer(id, question, answers[i] ?? { choices: [] });
}

function checkAnswer(id: string, question: AskQuestion, { choices, text }: AskAnswer): void {
  const ids = question.options.map((option) => option.id);
  const unknown = choices.find((choice) => !ids.includes(choice));
  const fail = (what: string): SyscallError =>
    new SyscallError("INVALID", `Question ${id}: ${what} Choices: ${ids.join(", ") || "none"}.`);
  if (unknown !== undefined) throw fail(`${JSON.stringify(unknown)} is no choice.`);
  if (choices.length > 1 && !question.multi) throw fail("it takes one choice.");
  if (text !== undefined && !question.text) throw fail("it takes no text.");
  if (choices.length === 0 && !text) throw fail("the answer is empty.");
}
