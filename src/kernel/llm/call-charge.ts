/** Charges what a model call uses, step by step. */

import type { Usage } from "../../plugin/index.ts";
import { addUsage, noUsage, subtractUsage } from "../../run/usage.ts";
import { type CallBudget, costOf } from "../budget/call-budget.ts";
import { AttemptUsage } from "../budget/tokens.ts";
import type { Process } from "../process/process.ts";
import type { PaidRequest, ProviderChoice } from "../types.ts";

/**
 * What the attempts of one model call use, and what is charged of it: to the process, and to the budget reserved for
 * each step. It is charged also if the call fails.
 */
export class CallCharge {
  readonly #proc: Process;
  /** The provider of this call. After a failure, the process may have another one. */
  readonly #provider: ProviderChoice;
  readonly #used = new AttemptUsage();
  /** What earlier steps have charged. */
  readonly #paid = noUsage();
  #budget: CallBudget | undefined;

  constructor(proc: Process, budget: CallBudget) {
    this.#proc = proc;
    this.#provider = proc.model.provider;
    this.#budget = budget;
  }

  /** The reservation of the next step. */
  set budget(budget: CallBudget) {
    this.#budget = budget;
  }

  /** The current step was charged. */
  get isPaid(): boolean {
    return this.#budget === undefined;
  }

  report(usage: Usage): void {
    this.#used.report(usage);
  }

  nextAttempt(): void {
    this.#used.nextAttempt();
  }

  /** The usage of the last attempt alone. */
  get attempt(): Readonly<Usage> {
    return this.#used.attempt;
  }

  /**
   * Charges the current step once: `total` less what earlier steps were charged. `steps` is 0 if none is made. Returns
   * what was used, and what it cost if that is known; `isNew`: it was charged just now.
   */
  pay(total = this.#used.total(), steps: 0 | 1 = 1): PaidRequest & { isNew: boolean } {
    const used = subtractUsage(total, this.#paid);
    const budget = this.#budget;
    const provider = this.#provider;
    if (budget === undefined) return { provider, used, cost_usd: undefined, isNew: false };
    this.#budget = undefined;
    const cost_usd = this.#costOf(used);
    addUsage(this.#paid, { ...used, cost_usd });
    addUsage(this.#proc.run.usage, used);
    const tokens = used.input_tokens + used.output_tokens;
    budget.pay(tokens === 0 ? used : { ...used, cost_usd }, steps);
    return { provider, used, cost_usd, isNew: true };
  }

  /** The cost of all attempts that `used` contains; undefined if it is not known. */
  #costOf(used: Usage): number | undefined {
    const { price } = this.#provider;
    const costs = this.#used.charge(used).map((attempt) => costOf(attempt, price));
    return costs.includes(null) ? used.cost_usd : costs.reduce<number>((sum, cost) => sum + (cost ?? 0), 0);
  }
}
