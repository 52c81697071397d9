import type { CallOutcome, KeyLimiter, SlotRequest } from "./key-limiter.ts";

/**
 * The place that one call has among those of its key. A program that is a model gives it back while it waits for tool
 * calls of its own: one of them may be an agent that needs a place itself. Before it asks its model again it has one
 * again.
 */
export class SlotLease {
  readonly #slots: KeyLimiter;
  readonly #ticket: SlotRequest;
  readonly #signal: AbortSignal;
  #held = true;
  #ended = false;
  /** So many tool calls are under way. */
  #away = 0;

  /** The caller has acquired it. */
  constructor(slots: KeyLimiter, ticket: SlotRequest, signal: AbortSignal) {
    this.#slots = slots;
    this.#ticket = ticket;
    this.#signal = signal;
  }

  leave(): void {
    if (this.#away++ === 0) this.#giveBack("other");
  }

  /** Resolves when it has a place again, with the last of those that left; or when there will be none. */
  async back(): Promise<void> {
    if (--this.#away > 0 || this.#ended) return;
    try {
      await this.#slots.acquire(this.#ticket, this.#signal);
      this.#held = true;
    } catch {
      // It is told to stop, or its provider is not to be asked for long: then it hears so from that itself.
      return;
    }
    if (this.#away > 0 || this.#ended) this.#giveBack("other");
  }

  end(ending: CallOutcome): void {
    this.#ended = true;
    this.#giveBack(ending);
  }

  #giveBack(ending: CallOutcome): void {
    if (!this.#held) return;
    this.#held = false;
    this.#slots.release(ending);
  }
}
