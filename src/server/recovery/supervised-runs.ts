/** Interrupted runs that belong to units of init.yaml. */

import type { Run } from "../records/recorded-run.ts";

/** Runs of init.yaml units that were cut off: recovery finds them, and each unit takes its own when it starts. */
export class SupervisedRuns {
  readonly #runs = new Map<string, Run>();
  readonly #complete = Promise.withResolvers<void>();
  #isExpected = false;

  get isEmpty(): boolean {
    return this.#runs.size === 0;
  }

  /** Recovery has begun: `take` waits for it. */
  expect(): void {
    this.#isExpected = true;
  }

  /** Adds the run of a unit. If a unit has several, the latest counts. */
  add(unit: string, run: Run): void {
    const other = this.#runs.get(unit);
    if (!other || other.info.uuid < run.info.uuid) this.#runs.set(unit, run);
  }

  /** Recovery has looked at all runs. Safe to call again. */
  complete(): void {
    this.#complete.resolve();
  }

  /** The run of this unit, given once, after recovery has looked at all. Returns undefined if nothing recovers. */
  async take(unit: string): Promise<Run | undefined> {
    if (!this.#isExpected) return undefined;
    await this.#complete.promise;
    const run = this.#runs.get(unit);
    this.#runs.delete(unit);
    return run;
  }
}
