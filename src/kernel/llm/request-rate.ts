/** Limits the requests of a key in any minute. */

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
