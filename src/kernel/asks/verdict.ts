/** The verdict about a question, and how a client reads it later. */

import type { AskAnswer, AskVerdict, OpenAsk } from "../../run/ask-schema.ts";
import { askedText } from "./ask-text.ts";
import { answersText } from "./questions.ts";

/** The decision about a question: its answers, and what or who gave them. */
export interface Settled {
  by: AskVerdict["by"];
  answers: readonly AskAnswer[];
  via?: string;
}

export const NO: AskAnswer = { choices: ["no"] };
export const YES: AskAnswer = { choices: ["yes"] };

export function verdictOf(ask: OpenAsk, settled: Settled, now: number): AskVerdict {
  const { by, via } = settled;
  return {
    id: ask.id,
    ...(ask.kind === "question" ? answered(ask, settled) : permission(ask, settled)),
    by,
    ...(via && { via }),
    what: askedText(ask),
    rules: ask.call?.rules ?? [],
    ...(ask.call?.why && { why: ask.call.why }),
    asked_at: new Date(ask.asked_at_ms).toISOString(),
    waited_ms: Math.max(0, now - ask.asked_at_ms),
  };
}

function answered(
  { questions }: OpenAsk,
  { answers }: Settled,
): Pick<AskVerdict, "verdict" | "text" | "answers"> {
  return { verdict: "answered", text: answersText(questions, answers), answers: [...answers] };
}

function permission(
  { call }: OpenAsk,
  { answers: [answer = NO] }: Settled,
): Pick<AskVerdict, "verdict" | "allowed" | "text"> {
  const [choice = "no"] = answer.choices;
  // Any other choice allows nothing.
  const verdict = choice === "yes" || choice === "always" || choice === "always_project" ? choice : "no";
  const isAlways = verdict === "always" || verdict === "always_project";
  return {
    verdict,
    ...(isAlways && { allowed: answer.rules ?? call?.always ?? [] }),
    ...(answer.text && { text: answer.text }),
  };
}

/** How a question ended, for a client whose answer comes too late. */
export function endText({ kind, questions }: OpenAsk, { by, answers, via }: Settled): string {
  const choice = kind === "question" ? answersText(questions, answers) : (answers[0]?.choices[0] ?? "no");
  switch (by) {
    case "user":
      return `it was answered "${choice}"${via ? ` (${via})` : ""}, and the first answer counts`;
    case "rule":
      return `the answer to another question allowed it (${via})`;
    case "expiry":
      return `no answer came in time, so ${choice} counts`;
    case "on_ask":
      return `there was no person to ask, so ${choice} counts`;
  }
}
