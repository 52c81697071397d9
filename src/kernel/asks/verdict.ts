/** The verdict about a question, and how a client reads it later. */

import type { AskAnswer, AskVerdict, OpenAsk } from "../../store/runs/ask-schema.ts";
import { quoted } from "./ask-text.ts";

/** How a question ended. */
export interface Settled {
  by: AskVerdict["by"];
  answer: AskAnswer;
  via?: string;
}

export const NO: AskAnswer = { choices: ["no"] };
export const YES: AskAnswer = { choices: ["yes"] };

export function defaultOf({ questions }: OpenAsk): AskAnswer {
  return { choices: questions[0]?.default ?? [] };
}

export function verdictOf(ask: OpenAsk, { by, answer, via }: Settled, now: number): AskVerdict {
  const [choice = "no"] = answer.choices;
  const verdict = choice === "yes" || choice === "always" || choice === "always_project" ? choice : "no";
  const isAlways = verdict === "always" || verdict === "always_project";
  return {
    id: ask.id,
    verdict,
    by,
    ...(via && { via }),
    what: ask.call ? quoted(ask.call) : "",
    rules: ask.call?.rules ?? [],
    ...(isAlways && { allowed: ask.call?.always ?? [] }),
    ...(answer.text && { text: answer.text }),
    asked_at: new Date(ask.asked_at_ms).toISOString(),
    waited_ms: Math.max(0, now - ask.asked_at_ms),
  };
}

export function answeredText({ by, answer, via }: Settled): string {
  const [choice = "no"] = answer.choices;
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
