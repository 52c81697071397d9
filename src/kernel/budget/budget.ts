/** The budgets of processes: limits, usage and reservations along the process tree. */

import { type Cancellation, onceAborted } from "../../lib/clock.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { Limit } from "../types.ts";

/** The limits that a process and all its descendants share. */
export interface BudgetLimits {
  /** Input and output tokens of model calls. */
  tokens: Limit;
  /** In USD. */
  cost: Limit;
  /** Steps, including those of descendants. */
  steps: Limit;
  timeMs: Limit;
  /** Live descendants. */
  children: Limit;
  /** Levels of descendants. */
  depth: Limit;
}

export const UNLIMITED: BudgetLimits = {
  tokens: null,
  cost: null,
  steps: null,
  timeMs: null,
  children: null,
  depth: null,
};

/** The quantities that model calls use. */
interface Amounts {
  tokens: number;
  cost: number;
  steps: number;
}

/** What was used; the cost is null if no price is known. */
export type BudgetUsage = Omit<Amounts, "cost"> & { cost: number | null };

/** What a resumed process had used before. It counts only in its own budget: its ancestors have counted it. */
export type EarlierUsage = BudgetUsage & { elapsedMs: number };

const NO_USAGE: EarlierUsage = { tokens: 0, cost: null, steps: 0, elapsedMs: 0 };

/** Whose limit it is: of a run and its ancestors, or for a day of a project, or of the jobs that runs made in it. */
type LimitOwner = "run" | "project" | "agent jobs";

/** The daily spending on disk, which starts at 0 each midnight. */
interface DailySpending {
  of: Exclude<LimitOwner, "run">;
  spent(): Pick<Amounts, "tokens" | "cost">;
  spend(used: BudgetUsage): void;
}

/** An amount that is reserved until it is settled, once, with what was really used. */
export interface Reservation {
  settle(used: BudgetUsage): void;
}

/**
 * The budget of a process and its descendants: their limits, and what they have used and reserved. Each amount counts
 * in all ancestors' budgets too. So a tree of any size stays within the limits of its root, also after a process in
 * the middle has ended.
 */
export class TreeBudget {
  readonly limits: BudgetLimits;
  /** This budget, then its ancestors. */
  readonly #chain: readonly TreeBudget[];
  readonly #used: Amounts = { tokens: 0, cost: 0, steps: 0 };
  readonly #reserved: Amounts = { tokens: 0, cost: 0, steps: 0 };
  #reservations = 0;
  #priced = false;
  #live = 0;
  #closed = false;
  #isKernelWide = false;
  #day: DailySpending | undefined;
  /** Callers that wait until a reservation is settled. Created on first use. */
  #waiting: Set<() => void> | undefined;

  /** Makes a budget without a parent process. `child` makes all others. */
  constructor(limits: BudgetLimits, above?: TreeBudget, before: EarlierUsage = NO_USAGE) {
    this.limits = limits;
    this.#chain = above ? [this, ...above.#chain] : [this];
    add(this.#used, { ...before, cost: before.cost ?? 0 }, 1);
    this.#priced = before.cost !== null;
  }

  /** The budget of a kernel, above all others. It limits the live processes. */
  static forKernel(liveProcesses: Limit): TreeBudget {
    const budget = new TreeBudget({ ...UNLIMITED, children: liveProcesses });
    budget.#isKernelWide = true;
    return budget;
  }

  /**
   * The budget of all runs of a project, or of a part of them. Its token and cost limits are for a day. They stop model calls, not spawns,
   * and do not lower a run's own limits, because a run may last longer than the day.
   */
  static forDay(above: TreeBudget, day: DailySpending): TreeBudget {
    const budget = new TreeBudget({ ...UNLIMITED }, above);
    budget.#day = day;
    return budget;
  }

  get tokens(): number {
    return this.#used.tokens;
  }

  get steps(): number {
    return this.#used.steps;
  }

  /** In USD; null if nothing with a price was used. */
  get cost(): number | null {
    return this.#priced ? this.#used.cost : null;
  }

  /** Live descendants. */
  get live(): number {
    return this.#live;
  }

  /** What is reserved, and the number of reservations. */
  get reserved(): Readonly<Amounts & { reservations: number }> {
    return { ...this.#reserved, reservations: this.#reservations };
  }

  /** What is neither used nor reserved, by the tightest limit of this budget and its ancestors; Infinity if unlimited. */
  left(what: keyof Amounts): number {
    return this.#least(what, (one) => one.#spent(what) + one.#reserved[what]);
  }

  /** What is not used, whether it is reserved or not. */
  unspent(what: keyof Amounts): number {
    return this.#least(what, (one) => one.#spent(what));
  }

  /** The limit that leaves least, and what is used of it; undefined if unlimited. */
  tightest(what: keyof Amounts): { limit: number; used: number; of: LimitOwner } | undefined {
    let tightest: { limit: number; used: number; of: LimitOwner } | undefined;
    for (const one of this.#chain) {
      const limit = one.limits[what];
      if (limit === null) continue;
      const used = one.#spent(what);
      if (tightest && tightest.limit - tightest.used <= limit - used) continue;
      tightest = { limit, used, of: one.#day?.of ?? "run" };
    }
    return tightest;
  }

  /** Whether this budget or an ancestor limits it. */
  limited(what: keyof Amounts): boolean {
    return this.#chain.some((one) => one.limits[what] !== null);
  }

  /** Reserves the amounts in this budget and all its ancestors, or throws EXHAUSTED and reserves nothing. */
  reserve(amount: Amounts): Reservation {
    for (const what of AMOUNTS) {
      if (amount[what] > this.left(what) + ROUNDING) {
        const message = `${amount[what]} ${NAMES[what]} are requested, but ${this.left(what)} are left in the budget of the process.`;
        throw new SyscallError("EXHAUSTED", message);
      }
    }
    for (const one of this.#chain) {
      add(one.#reserved, amount, 1);
      one.#reservations++;
    }
    let settled = false;
    return {
      settle: (used) => {
        if (settled) throw new SyscallError("INTERNAL", "A reservation was settled a second time.");
        settled = true;
        for (const one of this.#chain) {
          add(one.#reserved, amount, -1);
          // Rounding may leave a fraction of a cent.
          if (--one.#reservations === 0) one.#reserved.cost = 0;
        }
        this.charge(used);
        // Last, because writing it may fail.
        for (const one of this.#chain) {
          if (one.#day && (one.limits.tokens !== null || one.limits.cost !== null)) one.#day.spend(used);
        }
      },
    };
  }

  /** Adds what was used, by a child also while this process was not its parent: the day has counted that already. */
  charge(used: BudgetUsage): void {
    for (const one of this.#chain) {
      add(one.#used, { ...used, cost: used.cost ?? 0 }, 1);
      if (used.cost !== null) one.#priced = true;
      for (const wake of [...(one.#waiting ?? [])]) wake();
    }
  }

  /** Resolves when a reservation in the same limits was settled. Throws the signal's reason. */
  async changed(signal: Cancellation): Promise<void> {
    const outermost =
      this.#chain.findLast(({ limits }) => limits.tokens !== null || limits.cost !== null) ?? this;
    outermost.#waiting ??= new Set();
    const waiting = outermost.#waiting;
    const woken = Promise.withResolvers<void>();
    waiting.add(woken.resolve);
    const ignore = onceAborted(signal, () => woken.resolve());
    try {
      await woken.promise;
    } finally {
      waiting.delete(woken.resolve);
      ignore();
    }
    signal.throwIfAborted();
  }

  /**
   * Creates the budget of a child process, limited to what is left here. It counts as a live process in all ancestors
   * until it is closed. Throws EXHAUSTED if no child can be spawned. `before` is for a resumed process.
   */
  child(wanted: BudgetLimits, elapsedMs: number, before: EarlierUsage = NO_USAGE): TreeBudget {
    this.requireRoom(elapsedMs);
    const budget = new TreeBudget(
      {
        tokens: narrower(wanted.tokens, this.#leftForRun("tokens") + before.tokens),
        cost: narrower(wanted.cost, this.#leftForRun("cost") + (before.cost ?? 0)),
        steps: narrower(wanted.steps, this.#leftForRun("steps") + before.steps),
        timeMs: narrower(wanted.timeMs, remaining(this.limits.timeMs, elapsedMs) + before.elapsedMs),
        children: wanted.children,
        depth: narrower(wanted.depth, this.limits.depth === null ? Infinity : this.limits.depth - 1),
      },
      this,
      before,
    );
    for (const one of this.#chain) one.#live++;
    return budget;
  }

  /** Whether no child can be spawned until one of the live processes has ended. */
  get isFull(): boolean {
    return this.#full !== undefined;
  }

  /** Throws EXHAUSTED if no child can be spawned. `elapsedMs` is the process's running time. */
  requireRoom(elapsedMs: number): void {
    if (this.limits.depth !== null && this.limits.depth < 1) throw refusal(TOO_DEEP);
    const full = this.#full;
    const max = full?.limits.children ?? 0;
    if (full) throw full.#isKernelWide ? kernelIsFull(max) : refusal(tooMany(max));
    const spent = AMOUNTS.find((what) => this.#leftForRun(what) <= 0);
    if (spent) throw refusal(`No ${NAMES[spent]} are left for it`);
    if (remaining(this.limits.timeMs, elapsedMs) <= 0) throw refusal("No time is left for it");
  }

  /** Call this when the process has ended. The budget no longer counts as live; its usage still counts in its ancestors. */
  close(): void {
    if (this.#closed) throw new SyscallError("INTERNAL", "The budget of a process was closed a second time.");
    this.#closed = true;
    for (const one of this.#chain.slice(1)) one.#live--;
  }

  /** The budget that has as many live processes as it may have. */
  get #full(): TreeBudget | undefined {
    return this.#chain.find(({ limits, live }) => limits.children !== null && live >= limits.children);
  }

  /** Reads the day's spending only if it is limited. */
  #spent(what: keyof Amounts): number {
    if (!this.#day || what === "steps" || this.limits[what] === null) return this.#used[what];
    return this.#day.spent()[what];
  }

  /** What is left of the runs' own limits, without the day's. */
  #leftForRun(what: keyof Amounts): number {
    return this.#least(what, (one) => (one.#day ? -Infinity : one.#used[what]));
  }

  /** What the tightest limit leaves. `usedOf` is asked about limited budgets only. */
  #least(what: keyof Amounts, usedOf: (budget: TreeBudget) => number): number {
    let least = Infinity;
    for (const one of this.#chain)
      if (one.limits[what] !== null) least = Math.min(least, remaining(one.limits[what], usedOf(one)));
    return least;
  }
}

/** Tolerance for rounded costs; far less than a token. */
const ROUNDING = 1e-9;
const AMOUNTS = ["tokens", "cost", "steps"] as const;
const NAMES = { tokens: "tokens", cost: "USD", steps: "steps" } as const;

const TOO_DEEP = "Its depth would exceed the limit on nested agents (setting spawn_depth)";

function tooMany(max: number): string {
  return `${max} processes live below this run already, and no more may (setting live_children)`;
}

function kernelIsFull(max: number): SyscallError {
  const message = `No process can be spawned: ${max} live here already, and no more may (setting live_processes). Wait until some have ended, or end some: \`rnix ps --all-projects\` lists them.`;
  return new SyscallError("EXHAUSTED", message);
}

/** Read by models, which would otherwise try again and again. */
function refusal(why: string): SyscallError {
  const message = `No process can be spawned here. ${why}. Do not try again: do the work in this process, with the tools it has.`;
  return new SyscallError("EXHAUSTED", message);
}

function add(sum: Amounts, amount: Amounts, sign: 1 | -1): void {
  for (const what of AMOUNTS) sum[what] += sign * amount[what];
}

function remaining(limit: Limit, used: number): number {
  return limit === null ? Infinity : Math.max(0, limit - used);
}

/** A child's limit is never wider than what its parent has left. */
function narrower(limit: Limit, bound: number): Limit {
  if (bound === Infinity) return limit;
  return limit === null ? bound : Math.min(limit, bound);
}
