import type { Limit } from "./types.ts";

/**
 * What a process and all below it have used, and what they may. Whatever is paid or reserved here is so in
 * every account above too: a tree of any size keeps within the budget of its root.
 */
export class Account {
  /** In tokens. */
  readonly limit: Limit;
  readonly #above: Account | undefined;
  #tokens = 0;
  #reserved = 0;
  #costUsd: number | null = null;

  constructor(limit: Limit, above?: Account) {
    this.limit = limit;
    this.#above = above;
  }

  get tokens(): number {
    return this.#tokens;
  }

  /** null as long as nothing with a price was used. */
  get costUsd(): number | null {
    return this.#costUsd;
  }

  /** Tokens that are neither used nor reserved, in the tightest of the accounts; null where none is limited. */
  get left(): Limit {
    const own = this.limit === null ? Number.POSITIVE_INFINITY : this.limit - this.#tokens - this.#reserved;
    const left = Math.min(own, this.#above?.left ?? Number.POSITIVE_INFINITY);
    return left === Number.POSITIVE_INFINITY ? null : left;
  }

  pay(tokens: number, costUsd: number | null): void {
    this.#tokens += tokens;
    if (costUsd !== null) this.#costUsd = (this.#costUsd ?? 0) + costUsd;
    this.#above?.pay(tokens, costUsd);
  }

  /** Holds tokens back for a call under way, until the returned function is called, once. */
  reserve(tokens: number): () => void {
    this.#reserved += tokens;
    const above = this.#above?.reserve(tokens);
    return () => {
      this.#reserved -= tokens;
      above?.();
    };
  }
}
