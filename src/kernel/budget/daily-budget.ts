/** The budgets of a day, one for each project. */

import { recordOrFail } from "../errors/kernel-errors.ts";
import type { Core } from "../tiers/core.ts";
import type { SpawnOpts } from "../types.ts";
import { type BudgetUsage, TreeBudget } from "./budget.ts";

/**
 * The budget that all runs of a project share for a day (settings tokens_per_day and cost_per_day), from midnight to
 * midnight of the local clock. What was used is on disk and shared with other kernels; reservations are not.
 */
export class DailyBudget {
  readonly #parts: Core;
  readonly #projects = new Map<string, TreeBudget>();

  constructor(parts: Core) {
    this.#parts = parts;
  }

  /** The budget of a run's project, with the limits of this run's settings from now on. */
  of({ project: { dataDir }, limits, provider }: SpawnOpts): TreeBudget {
    if (provider?.plays) return this.#parts.budget;
    const budget = this.#projects.get(dataDir) ?? this.#make(dataDir);
    budget.limits.tokens = limits.tokens_per_day;
    budget.limits.cost = limits.cost_per_day;
    return budget;
  }

  /** Whether `begin` must be called before a run of the project is built. */
  needsBegin({ project: { dataDir }, limits }: SpawnOpts): boolean {
    if (limits.tokens_per_day === null && limits.cost_per_day === null) return false;
    return !this.#parts.runs(dataDir).dailySpending.has(localDay(this.#parts.clock.now()));
  }

  /** Starts the day's count with what the records of today's runs have used: a limit may be set during the day. */
  async begin({ project: { dataDir } }: SpawnOpts): Promise<void> {
    const now = this.#parts.clock.now();
    const runs = this.#parts.runs(dataDir);
    const { spendingSince } = await import("../../store/spending-since.ts");
    await runs.dailySpending.begin(localDay(now), await spendingSince(runs, midnight(now)));
  }

  #make(dataDir: string): TreeBudget {
    const { clock, budget: kernelBudget } = this.#parts;
    const book = this.#parts.runs(dataDir).dailySpending;
    const budget = TreeBudget.forDay(kernelBudget, {
      spent: () => recordOrFail(() => book.spent(localDay(clock.now()))),
      spend: ({ tokens, cost }: BudgetUsage) =>
        recordOrFail(() => book.add(localDay(clock.now()), { tokens, cost: cost ?? 0 })),
    });
    this.#projects.set(dataDir, budget);
    return budget;
  }
}

/** The local date, such as 2026-11-20. */
function localDay(ms: number): string {
  const date = new Date(ms);
  const two = (part: number): string => String(part).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

/** The start of the local day, which may have 23 or 25 hours. */
function midnight(ms: number): number {
  return new Date(ms).setHours(0, 0, 0, 0);
}
