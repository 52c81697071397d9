/** Checks answers against their questions. */

import { SyscallError } from "../../plugin/index.ts";
import type { AskAnswer, AskQuestion, OpenAsk } from "../../store/runs/ask-schema.ts";

/** Fails with INVALID, which names the choices. */
export function checkAnswers(
  { id, kind, questions }: Pick<OpenAsk, "id" | "kind" | "questions">,
  answers: readonly AskAnswer[],
): void {
  if (answers.length !== questions.length) {
    throw new SyscallError(
      "INVALID",
      `Question ${id} expects ${questions.length} answers, one for each of its questions, got ${answers.length}.`,
    );
  }
  for (const [i, question] of questions.entries()) {
    const answer = answers[i] ?? { choices: [] };
    // The model's questions may be skipped.
    if (kind === "permission" && answer.choices.length === 0 && !answer.text)
      throw invalid(id, question, "the answer is empty.");
    checkAnswer(id, question, answer);
  }
}

function checkAnswer(id: string, question: AskQuestion, { choices, text }: AskAnswer): void {
  const fail = (what: string): SyscallError => invalid(id, question, what);
  const ids = question.options.map((option) => option.id);
  const unknown = choices.find((choice) => !ids.includes(choice));
  if (unknown !== undefined) throw fail(`${JSON.stringify(unknown)} is no choice.`);
  if (choices.length > 1 && !question.multi) throw fail("it takes one choice.");
  if (text !== undefined && !question.text) throw fail("it takes no text.");
}

function invalid(id: string, { options }: AskQuestion, what: string): SyscallError {
  const ids = options.map((option) => option.id);
  return new SyscallError("INVALID", `Question ${id}: ${what} Choices: ${ids.join(", ") || "none"}.`);
}
