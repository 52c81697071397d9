import type { Limits, ProviderChoice } from "../types.ts";

/** How long a conversation may grow, in tokens of what its model is sent. */
export interface TokenTargets {
  /** What the model takes, its answer included. */
  window: number;
  /** From here on it is compacted. */
  trigger: number;
  /** What a compaction brings it down to: well below the trigger, so that the next one is far. */
  goal: number;
}

/** Of the trigger. */
const GOAL = 0.6;
/** No answer takes more of the window than this, however long the model's may be. */
const LONGEST_ANSWER = 0.5;

/**
 * `refusedAt`: a request of so many tokens was too long for the model, whatever its window is said to be. Where
 * nobody knows it, it is the setting's.
 */
export function tokenTargets(
  { contextWindow, maxOutput = 0 }: Pick<ProviderChoice, "contextWindow" | "maxOutput">,
  limits: Pick<Limits, "context_window" | "compact_at">,
  refusedAt: number,
): TokenTargets {
  const window = Math.min(contextWindow ?? limits.context_window, refusedAt);
  const answer = Math.min(maxOutput, window * LONGEST_ANSWER);
  const trigger = Math.min((window * limits.compact_at) / 100, window - answer);
  return { window, trigger, goal: trigger * GOAL };
}
