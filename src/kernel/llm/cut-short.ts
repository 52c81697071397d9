import { type LLMAnswer, SyscallError } from "../../plugin/index.ts";
import type { RunOutcome } from "../process/verdict.ts";
import type { ExitReason } from "../types.ts";

/** How a run ends with a last answer that is not whole; undefined: it is whole. */
export function cutShort(
  reason: LLMAnswer["stop_reason"] | undefined,
  word: string | undefined,
  { roomFromBudget }: { roomFromBudget: boolean },
): RunOutcome | undefined {
  const said = JSON.stringify(word ?? reason);
  switch (reason) {
    case "refusal":
      return broken("failed", refused(word));
    case "max_tokens":
      if (WINDOW_FULL.has(word ?? "")) return broken("llm_error", windowFull(said));
      return roomFromBudget ? broken("budget_exceeded", BUDGET) : broken("llm_error", OUTPUT);
    case "other":
      return broken(
        "llm_error",
        `The model ended its answer with ${said}, which is not known as a regular end: what came is kept as a partial answer. Resume the run to ask again, or use another model or provider.`,
      );
    default:
      return undefined;
  }
}

const BUDGET = "The answer was cut off where the token budget ended. Give it more with --budget.";
const OUTPUT =
  "The answer was cut off at the model's output limit before the agent finished. Raise the model's max_output in providers.yaml where it can write more, or ask for less at once.";

/** Words for an output limit that is none of the answer's but of the whole conversation. */
const WINDOW_FULL: ReadonlySet<string> = new Set(["model_length", "model_context_window_exceeded"]);

function windowFull(said: string): string {
  return `The answer was cut off because the conversation fills the model's context window (${said}). Use a model with a larger one, or set context_window in providers.yaml so that the conversation is compacted earlier.`;
}

function refused(word: string | undefined): string {
  if (word === undefined || word === "refusal")
    return "The model declined to answer. Change the request, or use another model.";
  return `The model declined to answer: its provider's content filter ended the answer with ${JSON.stringify(word)}. Change the request, or use another model or provider.`;
}

function broken(reason: ExitReason, message: string): RunOutcome {
  return { kind: "broken", reason, error: new SyscallError("EXHAUSTED", message) };
}
