/** Adds up the usage of the attempts of one model call. */

import type { Usage } from "../../plugin/index.ts";
import { addUsage, noUsage, subtractUsage } from "../../run/usage.ts";

/** Adds up the usage of one call's attempts. The last report of each attempt counts. */
export class AttemptUsage {
  #before = noUsage();
  #attempt = noUsage();
  /** The attempts before the last that are not charged yet. */
  #earlier: Usage[] = [];

  report(usage: Usage): void {
    this.#attempt = usage;
  }

  nextAttempt(): void {
    this.#before = this.total();
    this.#earlier.push(this.#attempt);
    this.#attempt = noUsage();
  }

  /** The usage of the last attempt alone. */
  get attempt(): Readonly<Usage> {
    return this.#attempt;
  }

  total(): Usage {
    const total = { ...this.#before };
    addUsage(total, this.#attempt);
    return total;
  }

  /** Parts what is charged now into its attempts: each has the price of its own length. */
  charge(used: Usage): Usage[] {
    const earlier = this.#earlier;
    this.#earlier = [];
    return [...earlier, earlier.reduce(subtractUsage, used)];
  }
}
