/** The rules of restarts: how many are allowed in a period, and the delay before each. */

import type { Clock } from "../../lib/clock.ts";

/** More than `intensity` restarts within `periodMs` are too many. 0 allows none. */
export interface RestartLimit {
  intensity: number;
  periodMs: number;
}

/** How long to wait before the next attempt: `firstMs`, doubled each time, never more than `longestMs`. */
export interface Backoff {
  firstMs: number;
  longestMs: number;
  /** The random share of each delay, 0 to 1, so that children that failed together do not restart together. */
  jitter?: number;
}

interface RestartRules {
  limit: RestartLimit;
  backoff: Backoff;
  /** After this many ms of running, the next delay is the first one again. */
  resetAfterMs: number;
}

/** Ms to wait before the attempt after `attempt` failed ones, counted from 1. */
export function backoffDelayMs(backoff: Backoff, attempt: number, random: () => number): number {
  const delay = Math.min(backoff.firstMs * 2 ** (attempt - 1), backoff.longestMs);
  const jitter = backoff.jitter ?? 0;
  return delay * (1 - jitter) + random() * delay * jitter;
}

/**
 * The default rules of a limit. The delays of a child that always fails at once add up to at most half of the period:
 * longer ones would keep it below its limit forever.
 */
export function rulesFor(limit: RestartLimit): RestartRules {
  const longestMs = limit.periodMs / (2 * Math.max(1, limit.intensity));
  return {
    limit,
    backoff: { firstMs: Math.min(FIRST_MS, longestMs), longestMs },
    resetAfterMs: limit.periodMs,
  };
}

/**
 * The restarts of the last period, counted as OTP's supervisor does (`add_restart`): one that is exactly a period old
 * still counts, and so does the new one. More than `intensity` are too many.
 */
export class RestartWindow {
  readonly #limit: RestartLimit;
  /** Oldest first; never more than the limit. */
  #restarts: number[] = [];

  constructor(limit: RestartLimit) {
    this.#limit = limit;
  }

  /**
   * Counts a restart at `now`, in ms of a monotonic clock. False: it exceeds the limit, must not be made, and does not
   * count.
   */
  add(now: number): boolean {
    if (this.count(now) >= this.#limit.intensity) return false;
    this.#restarts.push(now);
    return true;
  }

  /** Ms until the limit allows one more restart: 0 for now, Infinity for never. */
  allowedInMs(now: number): number {
    const { intensity, periodMs } = this.#limit;
    if (intensity < 1) return Number.POSITIVE_INFINITY;
    const count = this.count(now);
    const oldest = count < intensity ? undefined : this.#restarts[0];
    return oldest === undefined ? 0 : oldest + periodMs - now + 1;
  }

  /** How many count at `now`. */
  count(now: number): number {
    const threshold = now - this.#limit.periodMs;
    this.#restarts = this.#restarts.filter((at) => at >= threshold);
    return this.#restarts.length;
  }
}

export class RestartDelays {
  readonly #rules: Pick<RestartRules, "backoff" | "resetAfterMs">;
  readonly #random: () => number;
  #attempt = 0;

  constructor(rules: Pick<RestartRules, "backoff" | "resetAfterMs">, random: () => number) {
    this.#rules = rules;
    this.#random = random;
  }

  /** Ms until the next start, after a run of `upMs`. */
  next(upMs: number): number {
    if (upMs >= this.#rules.resetAfterMs) this.#attempt = 0;
    this.#attempt++;
    return backoffDelayMs(this.#rules.backoff, this.#attempt, this.#random);
  }
}

/** Restarts of one program or server that has no supervisor. */
export class Restarts {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #window: RestartWindow;
  readonly #delays: RestartDelays;
  #startedAt: number | undefined;

  constructor(rules: RestartRules, ports: { clock: Pick<Clock, "monotonic">; random: () => number }) {
    this.#clock = ports.clock;
    this.#window = new RestartWindow(rules.limit);
    this.#delays = new RestartDelays(rules, ports.random);
  }

  /** Call this when the restarted part is up. */
  started(): void {
    this.#startedAt = this.#clock.monotonic();
  }

  /**
   * Call it when the program has ended or did not start. Returns the ms until the restart, or null when the limit is
   * exceeded; after the period has passed, a later call returns a number again.
   */
  ended(): number | null {
    const now = this.#clock.monotonic();
    const upMs = this.#startedAt === undefined ? 0 : now - this.#startedAt;
    this.#startedAt = undefined;
    if (!this.#window.add(now)) return null;
    return this.#delays.next(upMs);
  }
}

const FIRST_MS = 500;
