import type { SyscallError } from "../../plugin/index.ts";
import { type Backoff, backoffDelayMs } from "../supervisor/restart-policy.ts";

/**
 * Whether the same request may be made again after this error: 429, 5xx, 529, a connection error, a broken or empty
 * answer. The driver decides with `retryable`; without it, the code does.
 */
export function isRetryable(error: SyscallError): boolean {
  return error.retryable ?? (error.code === "UNAVAILABLE" || error.code === "EXHAUSTED");
}

/**
 * Milliseconds to wait after `attempt` failed attempts. If the provider asked for a wait, it is that wait plus jitter,
 * so that callers do not return at the same moment. Otherwise it is exponential backoff with jitter from 0.5 s.
 */
export function backoffMs(error: SyscallError, attempt: number, now: number, random: () => number): number {
  const asked = requestedWaitMs(error, now);
  if (asked !== undefined && asked > 0)
    return asked + random() * Math.min(asked * REQUESTED_JITTER, MAX_JITTER_MS);
  return backoffDelayMs(BACKOFF, attempt, random);
}

/** The wait that the provider asked for, in ms, if it did. */
export function requestedWaitMs(error: SyscallError, now: number): number | undefined {
  if (error.retryAfterMs !== undefined) return waitMs(error.retryAfterMs);
  if (error.resetAtMs !== undefined) return waitMs(error.resetAtMs - now);
  return undefined;
}

/** Limits a wait that a provider asked for to a year, so that it ends at a valid date. undefined if it is NaN. */
export function waitMs(requested: number): number | undefined {
  return Number.isNaN(requested) ? undefined : Math.min(MAX_WAIT_MS, Math.max(0, requested));
}

const MAX_WAIT_MS = 365 * 24 * 3_600_000;

const BACKOFF: Backoff = { firstMs: 500, longestMs: 30_000, jitter: 0.5 };
const REQUESTED_JITTER = 0.1;
const MAX_JITTER_MS = 1_000;
