const MINUTE_MS = 60_000;

/** Requests of one key, at most so many within any minute. Times are those of a clock that never goes back. */
export class RequestRate {
  /** undefined: any number. They are counted all the same. */
  limit: number | undefined;
  /** When they were made, oldest first; the first `#old` of them are more than a minute ago. */
  #times: number[] = [];
  #old = 0;

  made(now: number): void {
    this.#times.push(now);
    this.#forget(now);
  }

  count(now: number): number {
    this.#forget(now);
    return this.#times.length - this.#old;
  }

  /** Ms until another one may be made. */
  waitMs(now: number): number {
    if (this.limit === undefined) return 0;
    const over = this.count(now) - this.limit;
    const leaves = over < 0 ? undefined : this.#times[this.#old + over];
    return leaves === undefined ? 0 : leaves + MINUTE_MS - now;
  }

  #forget(now: number): void {
    while ((this.#times[this.#old] ?? now) <= now - MINUTE_MS) this.#old++;
    // In one go, when it is worth it: there may be thousands a second.
    if (this.#old * 2 <= this.#times.length) return;
    this.#times = this.#times.slice(this.#old);
    this.#old = 0;
  }
}
