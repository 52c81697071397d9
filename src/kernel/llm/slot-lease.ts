/** The slot of one model call, which may be released meanwhile. */

import type { CallOutcome, KeyLimiter, SlotRequest } from "./key-limiter.ts";

/**
 * The slot of one model call. A program that serves as the model releases it while its own tool calls run, because
 * one of them may be an agent that needs a slot. It acquires a slot again before it asks its model again.
 */
export class SlotLease {
  readonly #limiter: KeyLimiter;
  readonly #request: SlotRequest;
  readonly #signal: AbortSignal;
  #hasSlot = true;
  #ended = false;
  /** Tool calls under way, each with one `release`. */
  #openCalls = 0;

  /** The caller has acquired the slot. */
  constructor(limiter: KeyLimiter, request: SlotRequest, signal: AbortSignal) {
    this.#limiter = limiter;
    this.#request = request;
    this.#signal = signal;
  }

  release(): void {
    if (this.#openCalls++ === 0) this.#free("other");
  }

  /** Undoes one `release`. The last one waits for a slot, and also resolves if none can be had. */
  async reacquire(): Promise<void> {
    if (--this.#openCalls > 0 || this.#ended) return;
    try {
      await this.#limiter.acquire(this.#request, this.#signal);
      this.#hasSlot = true;
    } catch {
      // The run is stopping, or the model is on hold: the model call itself fails with the reason.
      return;
    }
    if (this.#openCalls > 0 || this.#ended) this.#free("other");
  }

  end(outcome: CallOutcome): void {
    this.#ended = true;
    this.#free(outcome);
  }

  #free(outcome: CallOutcome): void {
    if (!this.#hasSlot) return;
    this.#hasSlot = false;
    this.#limiter.release(outcome);
  }
}
