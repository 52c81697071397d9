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
  /** The share of each delay that is random, 0 to 1, so that many that fell together do not come back together. */
  jitter?: number;
}

interface RestartRules {
  limit: RestartLimit;
  backoff: Backoff;
  /** So many ms up, and its next delay is the first one again. */
  resetAfterMs: number;
}

/** Ms to wait before the attempt after `attempt` failed ones, counted from 1. */
export function backoffDelayMs(backoff: Backoff, attempt: number, random: () => number): number {
  const delay = Math.min(backoff.firstMs * 2 ** (attempt - 1), backoff.longestMs);
  const jitter = backoff.jitter ?? 0;
  return delay * (1 - jitter) + random() * delay * jitter;
}

/**
 * The rules that follow from a limit alone. The delays of something that fails at once each time take at
 * most half of the period together: were they longer, they would keep it below its limit for ever.
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
 * The restarts of the last period, counted as OTP's supervisor does (`add_restart`): one that is exactly a
 * period old still counts, the new one counts itself, and it is too many when they are more than `intensity`.
 */
export class RestartWindow {
  readonly #limit: RestartLimit;
  /** Oldest first; never more than the limit. */
  #restarts: number[] = [];

  constructor(limit: RestartLimit) {
    this.#limit = limit;
  }

  /**
   * Counts a restart at `now` (ms of a clock that never goes back). False: it is one too many, and must not be
   * made; so it does not count either.
   */
  add(now: number): boolean {
    if (this.count(now) >= this.#limit.intensity) return false;
    this.#restarts.push(now);
    return true;
  }

  /** Ms until one more restart is within the limit: 0 when it is now, Infinity when none ever is. */
  roomInMs(now: number): number {
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

/** The growing delays of one thing that is started again and again. */
export class RestartDelays {
  readonly #rules: Pick<RestartRules, "backoff" | "resetAfterMs">;
  readonly #random: () => number;
  #attempt = 0;

  constructor(rules: Pick<RestartRules, "backoff" | "resetAfterMs">, random: () => number) {
    this.#rules = rules;
    this.#random = random;
  }

  /** Ms until the next start of what has ended now, after having been up for `upMs`. */
  next(upMs: number): number {
    if (upMs >= this.#rules.resetAfterMs) this.#attempt = 0;
    this.#attempt++;
    return backoffDelayMs(this.#rules.backoff, this.#attempt, this.#random);
  }
}

/** One thing that is started again when it ends, on its own: a server of a protocol, a program. */
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

  /** It is up. */
  started(): void {
    this.#startedAt = this.#clock.monotonic();
  }

  /**
   * It has ended, or did not start: ms until it is to be started again, or null when that was one restart too
   * many. Who asks again later, because somebody wants it after all, gets a number once the period has passed.
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
