import type { RateLimits, SyscallError } from "../../plugin/index.ts";
import { onceAborted } from "../abort.ts";
import type { Clock, Timer } from "../clock.ts";
import { AtOnce } from "./at-once.ts";
import { FairQueue, type Turn } from "./fair-queue.ts";
import { PerMinute } from "./per-minute.ts";
import { type Hold, Reported } from "./reported.ts";
import { Window } from "./window.ts";

/** A caller's place in the queue. It keeps it for its retries, which so go before later comers. */
export interface Ticket extends Turn {
  /** The longest hold-off it is willing to sit out, ms. */
  readonly patienceMs: number;
}

/** What the provider's entry allows. */
export interface Pace {
  /** Calls at once, at most. */
  concurrency: number | undefined;
  requestsPerMinute: number | undefined;
}

/** How a call gave its place back: with an answer, refused because there were too many, or anything else. */
export type Ending = "answered" | "refused" | "other";

/** How it stands with one key; times in ms. */
export interface SlotsStatus {
  running: number;
  waiting: number;
  /** Process trees among those who wait. */
  trees: number;
  /** Calls at once now, and at most. */
  at_once: number;
  at_once_max: number;
  requests_last_minute: number;
  requests_per_minute: number | null;
  /** Nobody goes on before that, and why. */
  hold: { until_ms: number; left_ms: number; why: string } | null;
  /** What the last answer's headers said. */
  reported: RateLimits | null;
  /** Requests made, and of these refused because there were too many. */
  requests: number;
  refused: number;
}

interface Waiter extends Ticket {
  grant(): void;
  refuse(error: SyscallError): void;
}

/** A clock may be set, or a machine sleep, while everybody waits: it is looked at again after so long. */
const LOOK_AGAIN_MS = 60_000;

/**
 * The places of one key, given out in turn: so many at once, so many a minute, as few as the provider's headers
 * say, and none while it has asked everybody with this key to stay away.
 */
export class Slots {
  /** Under way, those that wait for a retry and hold no place among them. */
  calls = 0;
  readonly #clock: Clock;
  readonly #atOnce: AtOnce;
  readonly #perMinute = new PerMinute();
  readonly #reported: Reported;
  readonly #waiters = new FairQueue<Waiter>();
  #asked: Hold | undefined;
  #timer: Timer | undefined;
  #running = 0;
  #requests = 0;
  #refused = 0;
  #usedAt: number;

  constructor(clock: Clock, concurrency: number | undefined) {
    this.#clock = clock;
    this.#atOnce = new AtOnce(concurrency);
    this.#reported = new Reported(clock);
    this.#usedAt = clock.monotonic();
  }

  /** The last word counts: providers.yaml may have been changed. */
  set pace({ concurrency, requestsPerMinute }: Pace) {
    this.#atOnce.setMax(concurrency);
    this.#perMinute.limit = requestsPerMinute;
  }

  get running(): number {
    return this.#running;
  }

  /**
   * Waits for a place; the caller gives it back with `release`. Rejects with the signal's reason when it is
   * aborted first, and at once with the provider's own error when the hold-off is longer than its patience.
   */
  async acquire(ticket: Ticket, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const granted = Promise.withResolvers<void>();
    const waiter: Waiter = { ...ticket, grant: granted.resolve, refuse: granted.reject };
    this.#waiters.add(waiter);
    const leave = () => {
      this.#waiters.leave(waiter);
      this.#next();
      granted.reject(signal.reason);
    };
    const stay = onceAborted(signal, leave);
    this.#next();
    try {
      await granted.promise;
    } finally {
      stay();
    }
  }

  release(ending: Ending): void {
    if (ending === "answered") this.#atOnce.answered(this.#running);
    this.#running--;
    this.#usedAt = this.#clock.monotonic();
    if (ending === "refused") {
      this.#refused++;
      this.#atOnce.refused(this.#running);
    }
    this.#next();
  }

  /** Nobody with this key goes on for `ms`; who would wait longer than its patience gets the error now. */
  holdOff(ms: number, error: SyscallError): void {
    if (this.#asked !== undefined && this.#asked.window.leftMs >= ms) return;
    this.#asked = { window: new Window(this.#clock, ms), error };
    this.#next();
  }

  /** The headers of an answer. What they say counts from now on, for better and for worse. */
  report(limits: RateLimits): void {
    this.#reported.report(limits);
    this.#next();
  }

  /** Nothing goes on here, nothing has to be waited for, and nobody came for so long. */
  isIdleSince(ms: number): boolean {
    return this.calls === 0 && this.#hold === undefined && this.#clock.monotonic() - this.#usedAt >= ms;
  }

  get status(): SlotsStatus {
    const hold = this.#hold;
    return {
      running: this.#running,
      waiting: this.#waiters.size,
      trees: this.#waiters.trees,
      at_once: this.#limit,
      at_once_max: this.#atOnce.max,
      requests_last_minute: this.#perMinute.count(this.#clock.monotonic()),
      requests_per_minute: this.#perMinute.limit ?? null,
      hold: hold
        ? { until_ms: hold.window.endsAt, left_ms: Math.ceil(hold.window.leftMs), why: hold.error.message }
        : null,
      reported: this.#reported.last ?? null,
      requests: this.#requests,
      refused: this.#refused,
    };
  }

  get #limit(): number {
    return Math.max(1, Math.floor(this.#atOnce.limit * this.#reported.share));
  }

  /** The longer one of what the provider has asked for and what its headers say. */
  get #hold(): Hold | undefined {
    const reported = this.#reported.hold();
    const asked = this.#asked?.window.leftMs ? this.#asked : undefined;
    if (asked === undefined || reported === undefined) return asked ?? reported;
    return asked.window.leftMs >= reported.window.leftMs ? asked : reported;
  }

  #next(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    while (this.#waiters.size > 0) {
      const hold = this.#hold;
      if (hold !== undefined && this.#turnAway(hold) === 0) return;
      const waitMs = hold?.window.leftMs ?? this.#perMinute.waitMs(this.#clock.monotonic());
      if (waitMs > 0) {
        // At least a millisecond: what rounding has left over would otherwise be waited for without end.
        const ms = Math.min(LOOK_AGAIN_MS, Math.max(1, waitMs));
        this.#timer = this.#clock.timer(ms, () => this.#next());
        return;
      }
      if (this.#running >= this.#limit) return;
      this.#begin();
    }
  }

  #begin(): void {
    const waiter = this.#waiters.next();
    this.#running++;
    this.#requests++;
    this.#perMinute.made(this.#clock.monotonic());
    this.#reported.begin();
    waiter?.grant();
  }

  /** Tells those who will not wait that long; answers how many still do. */
  #turnAway({ window, error }: Hold): number {
    const { leftMs } = window;
    for (const waiter of this.#waiters.remove(({ patienceMs }) => leftMs > patienceMs)) waiter.refuse(error);
    return this.#waiters.size;
  }
}
