/** What a person's answers make of a question, live or in the record of a suspended run. */

import { SyscallError } from "../../plugin/index.ts";
import type { AskAnswer, AskQuestion, OpenAsk } from "../../run/ask-schema.ts";
import type { Call, Permissions } from "../permission/permissions.ts";
import { parseRule } from "../permission/rule.ts";

const ALWAYS: ReadonlySet<string> = new Set(["always", "always_project"]);

/** Returns the question with its answers. Fails with INVALID, which names the choices. */
export function takeAnswers(ask: OpenAsk, answers: readonly AskAnswer[], via: string): OpenAsk {
  const { id, kind, questions } = ask;
  if (answers.length !== questions.length) {
    const message = `Question ${id} expects ${questions.length} answers, one for each of its questions, got ${answers.length}.`;
    throw new SyscallError("INVALID", message);
  }
  for (const [i, question] of questions.entries()) {
    const answer = answers[i] ?? { choices: [] };
    // The model's questions may be skipped.
    if (kind === "permission" && answer.choices.length === 0 && !answer.text)
      throw invalid(id, question, "the answer is empty.");
    checkAnswer(id, question, answer);
  }
  return { ...ask, answers: [...answers], answered_by: via };
}

/** Fails with INVALID unless the rules that a person has written exist, and cover the call that they are written for. */
export function checkRules(
  { id, call }: Pick<OpenAsk, "id" | "call">,
  answers: readonly AskAnswer[],
  permissions: Permissions,
  asked: Call | undefined,
): void {
  const rules = answers.flatMap((answer) => answer.rules ?? []);
  if (rules.length === 0) return;
  permissions.rules(rules);
  const then = permissions.allowAlways(rules, "run");
  if (!asked || !then.asks({ ...asked, opened: call?.opened })) return;
  const message = `Question ${id}: ${rules.join(", ")} does not cover this call, which would be asked for again. Write a rule that covers it, such as ${call?.always.join(", ")}.`;
  throw new SyscallError("INVALID", message);
}

function checkAnswer(id: string, question: AskQuestion, { choices, text, rules = [] }: AskAnswer): void {
  const fail = (what: string): SyscallError => invalid(id, question, what);
  const ids = question.options.map((option) => option.id);
  const unknown = choices.find((choice) => !ids.includes(choice));
  if (unknown !== undefined) throw fail(`${JSON.stringify(unknown)} is no choice.`);
  if (choices.length > 1 && !question.multi) throw fail("it takes one choice.");
  if (rules.length > 0 && !choices.some((choice) => ALWAYS.has(choice)))
    throw fail("only always takes rules.");
  for (const rule of rules) parseRule(rule);
  if (text !== undefined && !question.text) throw fail("it takes no text.");
}

function invalid(id: string, { options }: AskQuestion, what: string): SyscallError {
  const ids = options.map((option) => option.id);
  return new SyscallError("INVALID", `Question ${id}: ${what} Choices: ${ids.join(", ") || "none"}.`);
}
