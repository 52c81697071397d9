import { onceAborted } from "../../lib/cancellation.ts";
import type { Clock, Timer } from "../../lib/clock.ts";
import type { RateLimits, SyscallError } from "../../plugin/index.ts";
import { ConcurrencyLimit } from "./concurrency-limit.ts";
import { FairQueue, type Turn } from "./fair-queue.ts";
import { HoldWindow } from "./hold-window.ts";
import { OpenRequests } from "./open-requests.ts";
import { type ProviderHold, ReportedLimits } from "./reported-limits.ts";
import { RequestRate } from "./request-rate.ts";

/** A caller's place in the queue. It keeps it for its retries, which so go before later comers. */
export interface SlotRequest extends Turn {
  /** What it asks: a quota is that of a key and a model. */
  readonly model: string;
  /** The longest hold-off it is willing to sit out, ms. */
  readonly patienceMs: number;
}

/** What the provider's entry allows. */
export interface ConfiguredLimits {
  /** Calls at once, at most. */
  concurrency: number | undefined;
  requestsPerMinute: number | undefined;
}

/** How a call gave its place back: with an answer, refused because there were too many, or anything else. */
export type CallOutcome = "answered" | "refused" | "other";

/** How it stands with one key; times in ms. */
export interface KeyLimiterStatus {
  running: number;
  waiting: number;
  /** Process trees among those who wait. */
  trees: number;
  /** Calls at once now, and at most. */
  at_once: number;
  at_once_max: number;
  requests_last_minute: number;
  requests_per_minute: number | null;
  /** Which models nobody asks before that, and why. */
  holds: { model: string; until_ms: number; left_ms: number; why: string }[];
  /** What the headers of the last answer of each model said. */
  reported: Record<string, RateLimits>;
  /** Requests made, and of these refused because there were too many. */
  requests: number;
  refused: number;
}

class Waiter implements SlotRequest {
  /** Lets go of the signal that it heeds. */
  ignore = nothing;
  readonly #ticket: SlotRequest;
  readonly #resolve: () => void;
  readonly #reject: (reason: unknown) => void;

  constructor(ticket: SlotRequest, resolve: () => void, reject: (reason: unknown) => void) {
    this.#ticket = ticket;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  get tree(): string {
    return this.#ticket.tree;
  }

  get order(): number {
    return this.#ticket.order;
  }

  get again(): boolean {
    return this.#ticket.again;
  }

  get model(): string {
    return this.#ticket.model;
  }

  get patienceMs(): number {
    return this.#ticket.patienceMs;
  }

  grant(): void {
    this.ignore();
    this.#resolve();
  }

  refuse(error: unknown): void {
    this.ignore();
    this.#reject(error);
  }
}

const LOOK_AGAIN_MS = 60_000;

/**
 * The places of one key, given out in turn: so many at once, so many a minute, as few as the provider's headers
 * say, and none for a model while it has asked everybody to stay away from that.
 */
export class KeyLimiter {
  /** Under way, those that wait for a retry and hold no place among them. */
  calls = 0;
  readonly #clock: Clock;
  readonly #atOnce: ConcurrencyLimit;
  readonly #perMinute = new RequestRate();
  /** By model: what headers said, and how long a refusal has asked to stay away. */
  readonly #reported = new Map<string, ReportedLimits>();
  readonly #asked = new Map<string, ProviderHold>();
  readonly #waiters = new FairQueue<Waiter>();
  #timer: Timer | undefined;
  #running = 0;
  #requests = 0;
  #refused = 0;
  #usedAt: number;
  /** Shared by all keys. */
  readonly #open: OpenRequests;

  constructor(clock: Clock, concurrency: number | undefined, open = new OpenRequests()) {
    this.#clock = clock;
    this.#open = open;
    this.#atOnce = new ConcurrencyLimit(concurrency);
    this.#usedAt = clock.monotonic();
  }

  /** The last word counts: providers.yaml may have been changed. */
  set pace({ concurrency, requestsPerMinute }: ConfiguredLimits) {
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
  acquire(ticket: SlotRequest, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.reject(signal.reason);
    const hold = this.#holdOf(ticket.model);
    if (hold !== undefined && hold.window.leftMs > ticket.patienceMs) return Promise.reject(hold.error);
    // No function that awaits: each costs half a KiB, and thousands may wait here.
    return new Promise((resolve, reject) => {
      const waiter = new Waiter(ticket, resolve, reject);
      this.#waiters.add(waiter);
      waiter.ignore = onceAborted(signal, () => {
        this.#waiters.leave(waiter);
        if (this.#waiters.size === 0) this.#stopLooking();
        waiter.refuse(signal.reason);
      });
      // Thousands may come while one is held: the hold's end is looked at already.
      if (hold === undefined || this.#timer === undefined) this.next();
    });
  }

  release(ending: CallOutcome): void {
    if (ending === "answered") this.#atOnce.answered(this.#running);
    this.#running--;
    this.#usedAt = this.#clock.monotonic();
    if (ending === "refused") {
      this.#refused++;
      this.#atOnce.refused(this.#running);
    }
    this.#open.give(this);
    this.next();
  }

  /** Nobody asks this model for `ms`; who would wait longer than its patience gets the error now. */
  holdOff(model: string, ms: number, error: SyscallError): void {
    if ((this.#asked.get(model)?.window.leftMs ?? 0) >= ms) return;
    this.#asked.set(model, { window: new HoldWindow(this.#clock, ms), error });
    this.#turnAway(model);
    this.next();
  }

  /** The headers of an answer of this model. What they say counts from now on, for better and for worse. */
  report(model: string, limits: RateLimits): void {
    const reported = this.#reported.get(model) ?? new ReportedLimits(this.#clock);
    this.#reported.set(model, reported);
    reported.report(limits);
    this.#turnAway(model);
    this.next();
  }

  /** Nothing goes on here, nothing has to be waited for, and nobody came for so long. */
  isIdleSince(ms: number): boolean {
    const idle = this.calls === 0 && this.#clock.monotonic() - this.#usedAt >= ms;
    return idle && this.#models().every((model) => this.#holdOf(model) === undefined);
  }

  get status(): KeyLimiterStatus {
    const models = this.#models();
    return {
      running: this.#running,
      waiting: this.#waiters.size,
      trees: this.#waiters.trees,
      at_once: Math.min(this.#atOnce.limit, ...models.map((model) => this.#limitOf(model))),
      at_once_max: this.#atOnce.max,
      requests_last_minute: this.#perMinute.count(this.#clock.monotonic()),
      requests_per_minute: this.#perMinute.limit ?? null,
      holds: models.flatMap((model) => {
        const hold = this.#holdOf(model);
        if (hold === undefined) return [];
        const { window, error } = hold;
        return [{ model, until_ms: window.endsAt, left_ms: Math.ceil(window.leftMs), why: error.message }];
      }),
      reported: Object.fromEntries([...this.#reported].map(([model, { last }]) => [model, last ?? {}])),
      requests: this.#requests,
      refused: this.#refused,
    };
  }

  /** Those of which something is known. */
  #models(): string[] {
    return [...new Set([...this.#asked.keys(), ...this.#reported.keys()])];
  }

  #limitOf(model: string): number {
    const share = this.#reported.get(model)?.share ?? 1;
    return Math.max(1, Math.floor(this.#atOnce.limit * share));
  }

  /** The longer one of what the provider has asked for and what its headers say. */
  #holdOf(model: string): ProviderHold | undefined {
    const reported = this.#reported.get(model)?.hold();
    const asked = this.#asked.get(model);
    if (asked === undefined || asked.window.leftMs === 0) return reported;
    return reported === undefined || asked.window.leftMs >= reported.window.leftMs ? asked : reported;
  }

  /** Lets go whoever may, and looks again when the next one may. */
  next(): void {
    this.#stopLooking();
    while (this.#waiters.size > 0 && this.#running < this.#atOnce.limit) {
      if (!this.#open.hasRoom(this)) return;
      const minuteMs = this.#perMinute.waitMs(this.#clock.monotonic());
      const holdsMs = new Map(
        this.#models().map((model) => [model, this.#holdOf(model)?.window.leftMs ?? 0]),
      );
      const isHeld = (model: string) =>
        (holdsMs.get(model) ?? 0) > 0 || (holdsMs.has(model) && this.#running >= this.#limitOf(model));
      const waiter = minuteMs > 0 ? undefined : this.#waiters.next(({ model }) => !isHeld(model));
      if (waiter === undefined) {
        this.#lookAgain([minuteMs, ...holdsMs.values()]);
        return;
      }
      this.#begin(waiter);
    }
  }

  /** A clock may be set, or a machine sleep, while everybody waits: so it is not later than in a minute. */
  #lookAgain(waits: number[]): void {
    const soonest = Math.min(...waits.filter((ms) => ms > 0));
    if (soonest === Infinity) return;
    // At least a millisecond: what rounding has left over would otherwise be waited for without end.
    this.#timer = this.#clock.timer(Math.min(LOOK_AGAIN_MS, Math.max(1, soonest)), () => this.next());
  }

  #stopLooking(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #begin(waiter: Waiter): void {
    this.#open.take(this);
    this.#running++;
    this.#requests++;
    this.#perMinute.made(this.#clock.monotonic());
    const reported = this.#reported.get(waiter.model);
    reported?.begin();
    if (reported) this.#turnAway(waiter.model);
    waiter.grant();
  }

  /** Tells those who will not wait for this model so long. Needed when a hold begins: from then on it gets shorter. */
  #turnAway(model: string): void {
    const hold = this.#holdOf(model);
    if (hold === undefined) return;
    const { leftMs } = hold.window;
    const impatient = this.#waiters.remove((one) => one.model === model && leftMs > one.patienceMs);
    for (const waiter of impatient) waiter.refuse(hold.error);
  }
}

function nothing(): void {}
