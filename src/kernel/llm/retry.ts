/** Decides whether and when a failed model call is retried. */

import type { Clock } from "../../lib/clock.ts";
import type { SyscallError } from "../../plugin/index.ts";
import { type Backoff, backoffDelayMs } from "../supervisor/restart-policy.ts";
import type { Limits } from "../types.ts";

/**
 * Whether the same request may be retried after this error: 429, 5xx, 529, a connection error, a broken or empty
 * answer. The driver decides with `retryable`; without it, the code does.
 */
export function isRetryable(error: SyscallError): boolean {
  return error.retryable ?? (error.code === "UNAVAILABLE" || error.code === "EXHAUSTED");
}

/**
 * Milliseconds to wait after `attempt` failed attempts. If the provider asked for a wait, it is that wait plus jitter,
 * so that callers do not return at the same moment. Otherwise it is exponential backoff with jitter from 0.5 s.
 */
function backoffMs(error: SyscallError, attempt: number, now: number, random: () => number): number {
  const asked = requestedWaitMs(error, now);
  if (asked !== undefined && asked > 0)
    return asked + random() * Math.min(asked * REQUESTED_JITTER, MAX_JITTER_MS);
  return backoffDelayMs(BACKOFF, attempt, random);
}

/** How often, and how long, failures in a row are retried. */
export interface RetryLimits {
  /** Attempts after the first one. */
  retries: number;
  /** Ms from the first failure to the start of the last attempt. */
  retryMs: number;
}

export const NO_RETRY: RetryLimits = { retries: 0, retryMs: 0 };

/** A model that another one can replace, or whose answer is waited for by something else, is retried this long. */
const BRIEF_RETRY_MS = 10_000;

/** The limits that a run's settings give. */
export function retryLimitsOf(
  { model_retries, model_retry_time }: Pick<Limits, "model_retries" | "model_retry_time">,
  { brief = false } = {},
): RetryLimits {
  return {
    retries: model_retries ?? Infinity,
    retryMs: brief ? Math.min(model_retry_time, BRIEF_RETRY_MS) : model_retry_time,
  };
}

/** The wait before the next attempt, and how long attempts are made from now on. */
interface RetryWait {
  delayMs: number;
  leftMs: number;
}

/** Decides after each failure in a row whether and when the next attempt is made. */
export class RetrySchedule {
  readonly #clock: Pick<Clock, "now" | "monotonic">;
  readonly #random: () => number;
  #failures = 0;
  #counted = 0;
  #since: number | undefined;

  constructor(clock: Pick<Clock, "now" | "monotonic">, random: () => number) {
    this.#clock = clock;
    this.#random = random;
  }

  /** Failed attempts so far. */
  get failures(): number {
    return this.#failures;
  }

  /** Ms since the first failure that counted. */
  get elapsedMs(): number {
    return this.#since === undefined ? 0 : this.#clock.monotonic() - this.#since;
  }

  /**
   * Counts a failure. Returns undefined if it was the last: the limits are reached, or the provider asks for a longer
   * wait than the time left. A failure that does not `count` is always retried.
   */
  next(error: SyscallError, { retries, retryMs }: RetryLimits, counts = true): RetryWait | undefined {
    this.#failures++;
    if (counts) {
      this.#counted++;
      this.#since ??= this.#clock.monotonic();
    }
    const leftMs = retryMs - this.elapsedMs;
    const now = this.#clock.now();
    const delayMs = backoffMs(error, this.#failures, now, this.#random);
    if (!counts) return { delayMs, leftMs: Math.max(leftMs, delayMs) };
    const asked = requestedWaitMs(error, now) ?? 0;
    if (this.#counted > retries || leftMs <= 0 || asked > leftMs) return undefined;
    // The last attempt is made when the time ends.
    return { delayMs: Math.min(delayMs, leftMs), leftMs };
  }
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

/**
 * How long a run is suspended after all retries failed: as long as it retried, twice as long as last time in a row, at
 * most an hour. The jitter keeps runs that were suspended together from resuming together.
 */
export function outageWaitMs(retryMs: number, lastMs: number | undefined, random: () => number): number {
  const ms = lastMs === undefined ? retryMs : Math.max(retryMs, 2 * lastMs);
  return Math.min(ms, MAX_OUTAGE_WAIT_MS) * (1 + random() * REQUESTED_JITTER);
}

const MAX_OUTAGE_WAIT_MS = 3_600_000;

const MAX_WAIT_MS = 365 * 24 * 3_600_000;

const BACKOFF: Backoff = { firstMs: 500, longestMs: 30_000, jitter: 0.5 };
const REQUESTED_JITTER = 0.1;
const MAX_JITTER_MS = 1_000;
