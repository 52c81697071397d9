import type { SyscallError } from "../../plugin/index.ts";
import { onceAborted } from "../abort.ts";
import type { Clock, Timer } from "../clock.ts";

/** A caller's place in the queue. It keeps it for its retries, which so go before later comers. */
export interface Ticket {
  readonly order: number;
  /** The longest hold-off it is willing to sit out, ms. */
  readonly patienceMs: number;
}

interface Waiter {
  ticket: Ticket;
  grant(): void;
  refuse(error: SyscallError): void;
}

/**
 * The places of one key, given out first come, first served: so many at once, and none while the provider
 * has asked everybody with this key to stay away.
 */
export class Slots {
  limit: number;
  /** Under way, those that wait for a retry and hold no place among them. */
  calls = 0;
  readonly #clock: Clock;
  #used = 0;
  #waiters: Waiter[] = [];
  #hold: { until: number; error: SyscallError; timer: Timer } | undefined;

  constructor(clock: Clock, limit: number) {
    this.#clock = clock;
    this.limit = limit;
  }

  /**
   * Waits for a place; the caller gives it back with `release`. Rejects with the signal's reason when it is
   * aborted first, and at once with the provider's own error when the hold-off is longer than its patience.
   */
  async acquire(ticket: Ticket, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const granted = Promise.withResolvers<void>();
    const waiter: Waiter = { ticket, grant: granted.resolve, refuse: granted.reject };
    const before = this.#waiters.findLastIndex((one) => one.ticket.order < ticket.order);
    this.#waiters.splice(before + 1, 0, waiter);
    const leave = () => {
      this.#waiters = this.#waiters.filter((one) => one !== waiter);
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

  release(): void {
    this.#used--;
    this.#next();
  }

  /** Nobody with this key goes on for `ms`; who would wait longer than its patience gets the error now. */
  holdOff(ms: number, error: SyscallError): void {
    const until = this.#clock.monotonic() + ms;
    if (this.#hold !== undefined && this.#hold.until >= until) return;
    this.#hold?.timer.cancel();
    const timer = this.#clock.timer(ms, () => {
      this.#hold = undefined;
      this.#next();
    });
    this.#hold = { until, error, timer };
    this.#next();
  }

  /** Nothing is going on here and nothing has to be remembered. */
  get idle(): boolean {
    return this.calls === 0 && this.#hold === undefined;
  }

  #next(): void {
    const hold = this.#hold;
    if (hold !== undefined) {
      const left = hold.until - this.#clock.monotonic();
      for (const waiter of this.#waiters) if (left > waiter.ticket.patienceMs) waiter.refuse(hold.error);
      this.#waiters = this.#waiters.filter((one) => left <= one.ticket.patienceMs);
      return;
    }
    while (this.#used < this.limit) {
      const waiter = this.#waiters.shift();
      if (waiter === undefined) return;
      this.#used++;
      waiter.grant();
    }
  }
}
