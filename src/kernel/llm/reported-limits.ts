/** Applies the limits that a provider reports in its answers. */

import type { Clock } from "../../lib/clock.ts";
import { type RateLimits, SyscallError } from "../../plugin/index.ts";
import { HoldWindow } from "./hold-window.ts";
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

  /** As reported. */
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
