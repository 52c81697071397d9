/** The lengths at which a conversation is compacted, and after it. */

import type { Limits, ProviderChoice } from "../types.ts";

/** The limits of a conversation's length, in tokens of the model request. */
export interface TokenTargets {
  /** The model's context window, including its answer. */
  window: number;
  /** The length at which it is compacted. */
  trigger: number;
  /** The length after a compaction, well below the trigger so that the next one is far away. */
  goal: number;
}

/** Share of the trigger. */
const GOAL_SHARE = 0.6;
/** The share of the window that is reserved for an answer at most. */
const MAX_ANSWER_SHARE = 0.5;

/**
 * Computes the targets from the model's window, or from the setting if the window is not known. `refusedAt` lowers it:
 * the model refused a request of about that length. A conversation is compacted before it reaches the length from which
 * all its tokens cost more.
 */
export function tokenTargets(
  {
    contextWindow,
    outputLimit = 0,
    maxOutput = outputLimit,
    price,
  }: Pick<ProviderChoice, "contextWindow" | "maxOutput" | "outputLimit" | "price">,
  limits: Pick<Limits, "context_window" | "compact_at">,
  refusedAt: number,
): TokenTargets {
  const window = Math.min(contextWindow ?? limits.context_window, refusedAt);
  const answer = Math.min(maxOutput, window * MAX_ANSWER_SHARE);
  const share = Math.min(window, price?.long?.above ?? window);
  const trigger = Math.min((share * limits.compact_at) / 100, window - answer);
  return { window, trigger, goal: trigger * GOAL_SHARE };
}
