import type { Usage } from "../../plugin/index.ts";

/** Usage as the attempts of one call report it: the last word of each counts. */
export class Spending {
  #before: Usage = { input_tokens: 0, output_tokens: 0, cached_tokens: 0 };
  #attempt: Usage = { input_tokens: 0, output_tokens: 0, cached_tokens: 0 };

  report(usage: Usage): void {
    this.#attempt = usage;
  }

  nextAttempt(): void {
    this.#before = this.total();
    this.#attempt = { input_tokens: 0, output_tokens: 0, cached_tokens: 0 };
  }

  total(): Usage {
    return {
      input_tokens: this.#before.input_tokens + this.#attempt.input_tokens,
      output_tokens: this.#before.output_tokens + this.#attempt.output_tokens,
      cached_tokens: this.#before.cached_tokens + this.#attempt.cached_tokens,
    };
  }
}
