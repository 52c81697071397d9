import type { SyscallError } from "../../plugin/index.ts";
import { type Backoff, backoffDelayMs } from "../supervisor/restart-policy.ts";

/**
 * Whether the same request may be made again after this error (interfaces §1, Defaults: 429, 5xx, 529,
 * connection, cut or empty answer). The driver's own word counts first; where it says nothing, the code.
 */
export function isRetryable(error: SyscallError): boolean {
  return error.retryable ?? (error.code === "UNAVAILABLE" || error.code === "EXHAUSTED");
}

/**
 * Ms to wait before the attempt after `attempt` failed ones. What the other side asked for is waited for
 * in full and a little more, so that all who were told the same do not come back at once; without a word
 * from it, or when its time is over already, half a second, doubled each time, half of it random.
 */
export function backoffMs(error: SyscallError, attempt: number, now: number, random: () => number): number {
  const asked = requestedWaitMs(error, now);
  if (asked !== undefined && asked > 0)
    return asked + random() * Math.min(asked * ASKED_JITTER, LONGEST_JITTER_MS);
  return backoffDelayMs(BACKOFF, attempt, random);
}

/** How long the other side asked us to stay away, if it did. */
export function requestedWaitMs(error: SyscallError, now: number): number | undefined {
  if (error.retryAfterMs !== undefined) return waitMs(error.retryAfterMs);
  if (error.resetAtMs !== undefined) return waitMs(error.resetAtMs - now);
  return undefined;
}

/** A wait as another side has it, held to what has a date: no more than a year. undefined: it is no number. */
export function waitMs(said: number): number | undefined {
  return Number.isNaN(said) ? undefined : Math.min(LONGEST_WAIT_MS, Math.max(0, said));
}

const LONGEST_WAIT_MS = 365 * 24 * 3_600_000;

const BACKOFF: Backoff = { firstMs: 500, longestMs: 30_000, jitter: 0.5 };
const ASKED_JITTER = 0.1;
const LONGEST_JITTER_MS = 1_000;
