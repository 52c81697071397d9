/** Decides how a run ends whose last answer is incomplete. */

import type { LLMAnswer } from "../../plugin/index.ts";
import { broken, type RunOutcome } from "../process/verdict.ts";

/** Returns how a run ends whose last answer is incomplete, or undefined if the answer is complete. */
export function cutShort(
  reason: LLMAnswer["stop_reason"] | undefined,
  stopWord: string | undefined,
  { cutByBudget }: { cutByBudget: boolean },
): RunOutcome | undefined {
  const stopped = JSON.stringify(stopWord ?? reason);
  switch (reason) {
    case "refusal":
      return broken("failed", refused(stopWord));
    case "max_tokens":
      if (WINDOW_FULL.has(stopWord ?? "")) return broken("llm_error", windowFull(stopped));
      return cutByBudget ? broken("budget_exceeded", BUDGET) : broken("llm_error", OUTPUT);
    case "other":
      return broken(
        "llm_error",
        `The model ended its answer with ${stopped}, which is not a known stop reason. The partial answer is kept. Resume the run to ask again, or use another model or provider.`,
      );
    default:
      return undefined;
  }
}

const BUDGET = "The answer was cut off because the token budget is used up. Raise it with --budget.";
const OUTPUT =
  "The answer was cut off at the model's output limit before the agent finished. Raise the model's max_output in providers.yaml where it can write more, or ask for less at once.";

/** Stop words that mean the context window was full, not the answer's output limit. */
const WINDOW_FULL: ReadonlySet<string> = new Set(["model_length", "model_context_window_exceeded"]);

function windowFull(stopped: string): string {
  return `The answer was cut off because the conversation fills the model's context window (${stopped}). Use a model with a larger one, or set context_window in providers.yaml so that the conversation is compacted earlier.`;
}

function refused(stopWord: string | undefined): string {
  if (stopWord === undefined || stopWord === "refusal")
    return "The model declined to answer. Change the request, or use another model.";
  return `The model declined to answer: its provider's content filter ended the answer with ${JSON.stringify(stopWord)}. Change the request, or use another model or provider.`;
}
