/** Grants the slots of one key to model calls. */

import { type Cancellation, type Clock, onceAborted, type Timer } from "../../lib/clock.ts";
import type { RateLimits, SyscallError } from "../../plugin/index.ts";
import type { ProviderChoice } from "../types.ts";
import {
  ConcurrencyLimit,
  HoldWindow,
  OpenRequests,
  type ProviderHold,
  ReportedLimits,
  RequestRate,
} from "./request-limits.ts";

export interface QueueEntry {
  /** The process tree. Trees take turns. */
  readonly tree: string;
  /** Within its tree the lowest goes first. */
  readonly order: number;
  /** True for a retry: its tree goes to the front of the queue. */
  readonly isRetry: boolean;
}

interface TreeQueue<T> {
  tree: string;
  waiting: T[];
}

/**
 * A queue that is fair between process trees: the trees take turns, and within a tree the lowest order goes first. A
 * new tree goes to the end, so no entry waits longer than one turn of each tree before it. A retry goes to the front.
 */
export class FairQueue<T extends QueueEntry> {
  #queues: TreeQueue<T>[] = [];
  readonly #byTree = new Map<string, TreeQueue<T>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get trees(): number {
    return this.#queues.length;
  }

  *all(): Generator<T> {
    for (const { waiting } of this.#queues) yield* waiting;
  }

  add(turn: T): void {
    const { tree, isRetry } = turn;
    const queue = this.#byTree.getOrInsertComputed(tree, () => {
      const added: TreeQueue<T> = { tree, waiting: [] };
      if (isRetry) this.#queues.unshift(added);
      else this.#queues.push(added);
      return added;
    });
    const before = queue.waiting.findLastIndex(({ order }) => order < turn.order);
    queue.waiting.splice(before + 1, 0, turn);
    this.#size++;
  }

  /** Removes and returns the first entry that `mayGo` accepts. Entries that it rejects keep their position. */
  next(mayGo: (turn: T) => boolean = () => true): T | undefined {
    for (const [index, queue] of this.#queues.entries()) {
      const at = queue.waiting.findIndex(mayGo);
      const [turn] = at < 0 ? [] : queue.waiting.splice(at, 1);
      if (turn === undefined) continue;
      this.#size--;
      this.#queues.splice(index, 1);
      if (queue.waiting.length > 0) this.#queues.push(queue);
      else this.#byTree.delete(queue.tree);
      return turn;
    }
    return undefined;
  }

  /** Removes one entry. Does nothing if it is not queued. */
  remove(turn: T): void {
    const queue = this.#byTree.get(turn.tree);
    const at = queue?.waiting.indexOf(turn) ?? -1;
    if (queue === undefined || at < 0) return;
    queue.waiting.splice(at, 1);
    this.#size--;
    if (queue.waiting.length > 0) return;
    this.#byTree.delete(queue.tree);
    this.#queues.splice(this.#queues.indexOf(queue), 1);
  }

  /** Removes and returns all entries that match. */
  removeWhere(which: (turn: T) => boolean): T[] {
    const removed: T[] = [];
    for (const queue of this.#queues) {
      removed.push(...queue.waiting.filter(which));
      queue.waiting = queue.waiting.filter((turn) => !which(turn));
      if (queue.waiting.length === 0) this.#byTree.delete(queue.tree);
    }
    this.#queues = this.#queues.filter(({ waiting }) => waiting.length > 0);
    this.#size -= removed.length;
    return removed;
  }
}

/** A call's request for a slot. Retries keep the order of the first attempt, so they go before later calls. */
export interface SlotRequest extends QueueEntry {
  /** A quota belongs to a key and a model. */
  readonly model: string;
  /** The longest hold that the call waits for, in ms. */
  readonly patienceMs: number;
  readonly observer?: SlotObserver;
}

export interface SlotObserver {
  /** The call has no slot yet. Called again when the reason changes. */
  onWait?(wait: SlotWait): void;
  /** The call has waited and has its slot now. */
  onGrant?(): void;
}

/** What a call waits for: a free slot, or the end of a rate limit. */
export interface SlotWait {
  for: "slot" | "rate_limit";
  /** Unix ms, if it is known. */
  untilMs: number | null;
}

/** How a call ended: with an answer, refused because of too many calls, or anything else. */
export type CallOutcome = "answered" | "refused" | "other";

/** The state of one key; times in ms. */
export interface KeyLimiterStatus {
  running: number;
  waiting: number;
  /** Process trees with waiting calls. */
  trees: number;
  /** The current limit on concurrent calls, and its maximum. */
  at_once: number;
  at_once_max: number;
  requests_last_minute: number;
  requests_per_minute: number | null;
  /** Models that are on hold, until when and why. */
  holds: { model: string; until_ms: number; left_ms: number; why: string }[];
  /** The rate limits in the headers of each model's last answer. */
  reported: Record<string, RateLimits>;
  /** Requests made, and how many of them were refused because of too many calls. */
  requests: number;
  refused: number;
}

class Waiter implements QueueEntry {
  /** Removes the abort listener. */
  detach = nothing;
  isGranted = false;
  #isNotified = false;
  readonly request: SlotRequest;
  readonly #resolve: () => void;
  readonly #reject: (reason: unknown) => void;

  constructor(request: SlotRequest, resolve: () => void, reject: (reason: unknown) => void) {
    this.request = request;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  get tree(): string {
    return this.request.tree;
  }

  get order(): number {
    return this.request.order;
  }

  get isRetry(): boolean {
    return this.request.isRetry;
  }

  waits(wait: SlotWait): void {
    this.#isNotified = true;
    this.request.observer?.onWait?.(wait);
  }

  grant(): void {
    this.isGranted = true;
    if (this.#isNotified) this.request.observer?.onGrant?.();
    this.detach();
    this.#resolve();
  }

  refuse(error: unknown): void {
    this.detach();
    this.#reject(error);
  }
}

/** The clock may be set, or the machine sleep, while calls wait: so the queue is checked at least this often. */
const MAX_TIMER_MS = 60_000;

/**
 * Hands out the slots of one key in a fair order. It limits concurrent calls and calls per minute, follows the rate
 * limits in the provider's headers, and grants no slot for a model that is on hold.
 */
export class KeyLimiter {
  /** Calls under way, including those that wait for a retry without a slot. */
  calls = 0;
  readonly #clock: Clock;
  readonly #concurrency: ConcurrencyLimit;
  readonly #rate = new RequestRate();
  /** By model: the limits that response headers have reported, and the hold that a refusal asked for. */
  readonly #reported = new Map<string, ReportedLimits>();
  readonly #requestedHolds = new Map<string, ProviderHold>();
  readonly #waiters = new FairQueue<Waiter>();
  #timer: Timer | undefined;
  #running = 0;
  #requests = 0;
  #refused = 0;
  #lastUsed: number;
  /** Shared by all keys. */
  readonly #openRequests: OpenRequests;

  constructor(clock: Clock, concurrency: number | undefined, open = new OpenRequests()) {
    this.#clock = clock;
    this.#openRequests = open;
    this.#concurrency = new ConcurrencyLimit(concurrency);
    this.#lastUsed = clock.monotonic();
  }

  /** Set before each call: providers.yaml may have changed. */
  set limits({ concurrency, requestsPerMinute }: Pick<ProviderChoice, "concurrency" | "requestsPerMinute">) {
    this.#concurrency.setMax(concurrency);
    this.#rate.limit = requestsPerMinute;
  }

  get running(): number {
    return this.#running;
  }

  /**
   * Waits for a slot; the caller returns it with `release`. Rejects with the signal's reason on abort, and with the
   * provider's error if the hold is longer than the request's patience.
   */
  acquire(request: SlotRequest, signal: Cancellation): Promise<void> {
    if (signal.aborted) return Promise.reject(signal.reason);
    const hold = this.#holdOf(request.model);
    if (hold !== undefined && hold.window.leftMs > request.patienceMs) return Promise.reject(hold.error);
    // Not an async function: each would cost half a KiB, and thousands may wait here.
    return new Promise((resolve, reject) => {
      const waiter = new Waiter(request, resolve, reject);
      this.#waiters.add(waiter);
      waiter.detach = onceAborted(signal, () => {
        this.#waiters.remove(waiter);
        if (this.#waiters.size === 0) this.#cancelTimer();
        waiter.refuse(signal.reason);
      });
      // During a hold the timer is set already, and thousands of calls may arrive.
      if (hold === undefined || this.#timer === undefined) this.admit();
      if (!waiter.isGranted) waiter.waits(this.#waitOf(request.model));
    });
  }

  release(outcome: CallOutcome): void {
    if (outcome === "answered") this.#concurrency.answered(this.#running);
    this.#running--;
    this.#lastUsed = this.#clock.monotonic();
    if (outcome === "refused") {
      this.#refused++;
      this.#concurrency.refused(this.#running);
    }
    this.#openRequests.release(this);
    this.admit();
  }

  /** Holds calls of this model for `ms`. Waiting calls with less patience get `error` now. */
  holdOff(model: string, ms: number, error: SyscallError): void {
    if ((this.#requestedHolds.get(model)?.window.leftMs ?? 0) >= ms) return;
    this.#requestedHolds.set(model, { window: new HoldWindow(this.#clock, ms), error });
    this.#rejectImpatient(model);
    this.admit();
  }

  /** Replaces what is known of this model's rate limits by the headers of its latest answer. */
  report(model: string, limits: RateLimits): void {
    this.#reported.getOrInsertComputed(model, () => new ReportedLimits(this.#clock)).report(limits);
    this.#rejectImpatient(model);
    this.admit();
  }

  /** True if no call is under way, no model is on hold, and the last use is at least `ms` ago. */
  isIdleSince(ms: number): boolean {
    const idle = this.calls === 0 && this.#clock.monotonic() - this.#lastUsed >= ms;
    return idle && this.#models().every((model) => this.#holdOf(model) === undefined);
  }

  get status(): KeyLimiterStatus {
    const models = this.#models();
    return {
      running: this.#running,
      waiting: this.#waiters.size,
      trees: this.#waiters.trees,
      at_once: Math.min(this.#concurrency.limit, ...models.map((model) => this.#limitOf(model))),
      at_once_max: this.#concurrency.max,
      requests_last_minute: this.#rate.count(this.#clock.monotonic()),
      requests_per_minute: this.#rate.limit ?? null,
      holds: models.flatMap((model) => {
        const hold = this.#holdOf(model);
        if (hold === undefined) return [];
        const until_ms = Math.ceil(hold.window.endsAt);
        return [{ model, until_ms, left_ms: Math.ceil(hold.window.leftMs), why: hold.error.message }];
      }),
      reported: Object.fromEntries([...this.#reported].map(([model, { last }]) => [model, last ?? {}])),
      requests: this.#requests,
      refused: this.#refused,
    };
  }

  /** Models with a hold or reported limits. */
  #models(): string[] {
    return [...new Set([...this.#requestedHolds.keys(), ...this.#reported.keys()])];
  }

  #limitOf(model: string): number {
    const share = this.#reported.get(model)?.share ?? 1;
    return Math.max(1, Math.floor(this.#concurrency.limit * share));
  }

  /** The longer of the hold that a refusal asked for and the hold that headers imply. */
  #holdOf(model: string): ProviderHold | undefined {
    const reported = this.#reported.get(model)?.hold();
    const asked = this.#requestedHolds.get(model);
    if (asked === undefined || asked.window.leftMs === 0) return reported;
    return reported === undefined || asked.window.leftMs >= reported.window.leftMs ? asked : reported;
  }

  #waitOf(model: string): SlotWait {
    const hold = this.#holdOf(model);
    if (hold !== undefined) return { for: "rate_limit", untilMs: Math.ceil(hold.window.endsAt) };
    const minuteMs = this.#rate.waitMs(this.#clock.monotonic());
    if (minuteMs <= 0) return { for: "slot", untilMs: null };
    return { for: "rate_limit", untilMs: Math.ceil(this.#clock.now() + minuteMs) };
  }

  /** Grants slots to all waiting calls that may start now, and sets a timer for the next one. */
  admit(): void {
    this.#cancelTimer();
    while (this.#waiters.size > 0 && this.#running < this.#concurrency.limit) {
      if (!this.#openRequests.hasRoom(this)) return;
      const minuteMs = this.#rate.waitMs(this.#clock.monotonic());
      const holdsMs = new Map(
        this.#models().map((model) => [model, this.#holdOf(model)?.window.leftMs ?? 0]),
      );
      const isHeld = (model: string) =>
        (holdsMs.get(model) ?? 0) > 0 || (holdsMs.has(model) && this.#running >= this.#limitOf(model));
      const waiter = minuteMs > 0 ? undefined : this.#waiters.next(({ request }) => !isHeld(request.model));
      if (waiter === undefined) {
        this.#scheduleAdmit([minuteMs, ...holdsMs.values()]);
        return;
      }
      this.#grant(waiter);
    }
  }

  #scheduleAdmit(waits: number[]): void {
    const soonest = Math.min(...waits.filter((ms) => ms > 0));
    if (soonest === Infinity) return;
    // At least 1 ms, or a rounding remainder could be waited for forever.
    this.#timer = this.#clock.timer(Math.min(MAX_TIMER_MS, Math.max(1, soonest)), () => this.admit());
  }

  #cancelTimer(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #grant(waiter: Waiter): void {
    this.#openRequests.take(this);
    this.#running++;
    this.#requests++;
    this.#rate.record(this.#clock.monotonic());
    const { model } = waiter.request;
    const reported = this.#reported.get(model);
    reported?.begin();
    if (reported) this.#rejectImpatient(model);
    waiter.grant();
  }

  /** Rejects waiting calls whose patience is shorter than the hold. Needed only when a hold begins: it only gets shorter. */
  #rejectImpatient(model: string): void {
    const hold = this.#holdOf(model);
    if (hold === undefined) return;
    const { leftMs } = hold.window;
    const impatient = this.#waiters.removeWhere(
      ({ request }) => request.model === model && leftMs > request.patienceMs,
    );
    for (const waiter of impatient) waiter.refuse(hold.error);
    const wait = this.#waitOf(model);
    for (const waiter of this.#waiters.all()) if (waiter.request.model === model) waiter.waits(wait);
  }
}

function nothing(): void {}
