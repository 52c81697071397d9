import type { Clock } from "../../lib/clock.ts";
import { type RateLimits, SyscallError } from "../../plugin/index.ts";
import { HoldWindow } from "./hold-window.ts";
import { waitMs } from "./retry.ts";

/** Nobody with a key goes on until then, and what whoever will not wait is told. */
export interface ProviderHold {
  window: HoldWindow;
  error: SyscallError;
}

/** Below this share of its tokens a key's calls become fewer, in proportion. */
const LOW = 0.2;

/**
 * What the headers of a provider's last answer said, and what of it still holds. Calls begun since are counted
 * against it, so that the last request of a window is the last one that is made.
 */
export class ReportedLimits {
  readonly #clock: Clock;
  #last: RateLimits | undefined;
  #windows: Partial<Record<keyof RateLimits, HoldWindow>> = {};
  #begun = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** As it was said. */
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

  /** A call was begun. */
  begin(): void {
    this.#begun++;
  }

  /** Nothing is left until then. Undefined while there is something, or nothing is known. */
  hold(): ProviderHold | undefined {
    const requests = this.#usedUp("requests", this.#begun);
    const tokens = this.#usedUp("tokens", 0);
    if (requests === undefined || tokens === undefined) return requests ?? tokens;
    return requests.window.leftMs > tokens.window.leftMs ? requests : tokens;
  }

  /** From 0 to 1: how much of its pace a key keeps, by the tokens that are left. */
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
    const wait = `The limit is new in ${Math.ceil(window.leftMs / 1000)} s: come back then, or use another provider`;
    const error = new SyscallError(
      "EXHAUSTED",
      `the provider says that ${all} of its rate limit are used up. ${wait}`,
      { retryAfterMs: window.leftMs, resetAtMs: window.endsAt },
    );
    return { window, error };
  }
}
