/** The limits of model requests: what a provider reports, calls of a key at a time and in a minute, open requests of all keys. */

import type { Clock } from "../../lib/clock.ts";
import { type RateLimits, SyscallError } from "../../plugin/index.ts";
import { waitMs } from "./retry.ts";

/** Calls of this model wait until `window` ends; callers that won't wait get `error`. */
export interface ProviderHold {
  window: HoldWindow;
  error: SyscallError;
}

/** If less than this share of the tokens is left, concurrency is reduced in proportion. */
const LOW = 0.2;

/**
 * The rate limits in the headers of a provider's last answer, as far as they still apply. Calls that started since
 * then count against them, so that no more requests are made than the window allows.
 */
export class ReportedLimits {
  readonly #clock: Clock;
  #last: RateLimits | undefined;
  #windows: Partial<Record<keyof RateLimits, HoldWindow>> = {};
  #begun = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The limits as the provider reported them. */
  get last(): RateLimits | undefined {
    return this.#last;
  }

  report(limits: RateLimits): void {
    this.#last = limits;
    this.#begun = 0;
    this.#windows = {
      requests: this.#window(limits.requests?.reset_ms),
      tokens: this.#window(limits.tokens?.reset_ms),
    };
  }

  /** Counts a call that starts. */
  begin(): void {
    this.#begun++;
  }

  /** The hold until the used-up limit is reset; undefined if something is left, or nothing is known. */
  hold(): ProviderHold | undefined {
    const requests = this.#usedUp("requests", this.#begun);
    const tokens = this.#usedUp("tokens", 0);
    if (requests === undefined || tokens === undefined) return requests ?? tokens;
    return requests.window.leftMs > tokens.window.leftMs ? requests : tokens;
  }

  /** The share of the concurrency limit that the remaining tokens allow, from 0 to 1. */
  get share(): number {
    const { remaining, limit } = this.#last?.tokens ?? {};
    if (remaining === undefined || !limit || !this.#windows.tokens?.leftMs) return 1;
    return Math.min(1, Math.max(0, remaining / limit / LOW));
  }

  #window(resetMs: number | undefined): HoldWindow | undefined {
    const ms = resetMs === undefined ? 0 : (waitMs(resetMs) ?? 0);
    return ms === 0 ? undefined : new HoldWindow(this.#clock, ms);
  }

  #usedUp(what: keyof RateLimits, begun: number): ProviderHold | undefined {
    const limit = this.#last?.[what];
    const window = this.#windows[what];
    if (limit?.remaining === undefined || limit.remaining - begun > 0 || !window?.leftMs) return undefined;
    const all = limit.limit === undefined ? `all ${what}` : `all ${limit.limit} ${what}`;
    const wait = `It is reset in ${Math.ceil(window.leftMs / 1000)} s. Try again then, or use another provider`;
    const error = new SyscallError(
      "EXHAUSTED",
      `the provider says that ${all} of its rate limit are used up. ${wait}`,
      { retryAfterMs: window.leftMs, resetAtMs: window.endsAt },
    );
    return { window, error };
  }
}

/**
 * A wait that ends `ms` from now: when that much monotonic time has passed, or when the wall clock reaches the end.
 * So the time a machine sleeps counts, and setting the clock back does not prolong the wait.
 */
export class HoldWindow {
  /** Unix time in ms. */
  readonly endsAt: number;
  readonly #clock: Clock;
  readonly #until: number;

  constructor(clock: Clock, ms: number) {
    this.#clock = clock;
    this.#until = clock.monotonic() + ms;
    this.endsAt = clock.now() + ms;
  }

  /** 0 after the end. */
  get leftMs(): number {
    return Math.max(0, Math.min(this.#until - this.#clock.monotonic(), this.endsAt - this.#clock.now()));
  }
}

const DEFAULT_MAX = 32;
/** The limit at the start: enough for one run's children, and within the lowest tier of a provider. */
const INITIAL = 16;
/** Answers before the limit rises by one, until the provider has refused once. */
const EARLY_STEP = 4;
/** The number of answers needed for the next increase doubles at most this many times. */
const MAX_DOUBLINGS = 5;

/**
 * The limit on concurrent calls of one key, adapted to what the provider accepts. A refusal lowers it. After that, an
 * increase by one needs as many answers as the limit, and twice as many each time an increase is refused at once.
 * So a provider with a fixed limit refuses few calls.
 */
export class ConcurrencyLimit {
  #max: number;
  #limit: number;
  #answers = 0;
  #refused = false;
  /** The last change was an increase. */
  #justRaised = false;
  #doublings = 0;

  /** `max` is never exceeded. If it is configured, it is also the initial limit. */
  constructor(max = DEFAULT_MAX) {
    this.#max = max;
    this.#limit = max === DEFAULT_MAX ? INITIAL : max;
  }

  get max(): number {
    return this.#max;
  }

  /** Applies a changed configuration; without an argument, the default. */
  setMax(max = DEFAULT_MAX): void {
    if (max === this.#max) return;
    this.#max = max;
    this.#limit = this.#refused ? Math.min(this.#limit, max) : max;
  }

  get limit(): number {
    return this.#limit;
  }

  /** An answer came while `running` calls ran, itself included. It counts only if the limit was fully used. */
  answered(running: number): void {
    if (running < this.#limit || this.#limit >= this.#max) return;
    this.#answers++;
    if (this.#answers < (this.#refused ? this.#limit * 2 ** this.#doublings : EARLY_STEP)) return;
    this.#answers = 0;
    this.#limit++;
    if (this.#justRaised) this.#doublings = 0;
    this.#justRaised = true;
  }

  /** The provider refused a call while `others` ran. If none ran, concurrency was not the cause. */
  refused(others: number): void {
    if (others === 0) return;
    this.#refused = true;
    this.#answers = 0;
    if (this.#justRaised) this.#doublings = Math.min(MAX_DOUBLINGS, this.#doublings + 1);
    this.#justRaised = false;
    this.#limit = Math.max(1, Math.min(this.#limit, others));
  }
}

const MINUTE_MS = 60_000;

/** Counts the requests of one key within any minute, and limits them. Times are monotonic. */
export class RequestRate {
  /** undefined: no limit, but requests are counted. */
  limit: number | undefined;
  /** Times of requests, oldest first; the first `#expired` are more than a minute ago. */
  #times: number[] = [];
  #expired = 0;

  record(now: number): void {
    this.#times.push(now);
    this.#expire(now);
  }

  count(now: number): number {
    this.#expire(now);
    return this.#times.length - this.#expired;
  }

  /** Milliseconds until another request may be made. */
  waitMs(now: number): number {
    if (this.limit === undefined) return 0;
    const over = this.count(now) - this.limit;
    const oldest = over < 0 ? undefined : this.#times[this.#expired + over];
    return oldest === undefined ? 0 : oldest + MINUTE_MS - now;
  }

  #expire(now: number): void {
    while ((this.#times[this.#expired] ?? now) <= now - MINUTE_MS) this.#expired++;
    // Rarely, because there may be thousands of requests a second.
    if (this.#expired * 2 <= this.#times.length) return;
    this.#times = this.#times.slice(this.#expired);
    this.#expired = 0;
  }
}

/** The queue of one key, which shares the limit. */
interface Requester {
  /** Called when a request may be possible. Starts as many as are waiting and allowed. */
  admit(): void;
}

/**
 * The limit on model requests that a kernel has open at the same time, all providers together. Above the limit of its
 * HTTP client a request would wait unsent, with its deadlines running, and keep those of other providers waiting.
 * Keys are served in turn. A quarter is reserved for keys that have few requests open, so that one key with long
 * answers can't delay the first requests of another.
 */
export class OpenRequests {
  readonly #max: number;
  readonly #reserve: number;
  readonly #share: number;
  readonly #held = new Map<Requester, number>();
  /** Keys that were refused since their last request, the longest-waiting first. */
  readonly #waiting = new Set<Requester>();
  #open = 0;

  constructor(max = Infinity) {
    this.#max = max;
    this.#reserve = Math.floor(max / 4);
    this.#share = Math.max(1, Math.floor(max / 8));
  }

  /** If it returns false, `admit` is called when a request may be possible. */
  hasRoom(by: Requester): boolean {
    if (this.#isAllowed(by)) return true;
    this.#waiting.add(by);
    return false;
  }

  /** Counts one request that starts; `hasRoom` returned true. */
  take(by: Requester): void {
    this.#waiting.delete(by);
    this.#open++;
    this.#held.set(by, this.#heldBy(by) + 1);
  }

  /** Counts one request that ended. */
  release(by: Requester): void {
    const held = this.#heldBy(by) - 1;
    if (held > 0) this.#held.set(by, held);
    else this.#held.delete(by);
    this.#open--;
    for (const waiting of [...this.#waiting]) {
      if (this.#open >= this.#max) return;
      if (!this.#isAllowed(waiting)) continue;
      // If it still wants one, it goes to the end of the queue.
      this.#waiting.delete(waiting);
      waiting.admit();
    }
  }

  #isAllowed(by: Requester): boolean {
    const free = this.#max - this.#open;
    return free > 0 && (this.#heldBy(by) < this.#share || free > this.#reserve);
  }

  #heldBy(by: Requester): number {
    return this.#held.get(by) ?? 0;
  }
}
