import { onceAborted } from "../../lib/cancellation.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { Limit } from "../types.ts";

/** What a process and all below it may use together. */
export interface BudgetLimits {
  /** Of model calls, input and output. */
  tokens: Limit;
  /** In USD. */
  cost: Limit;
  /** A step of a child's counts in its parent's envelope too. */
  steps: Limit;
  /** Running time in ms. */
  timeMs: Limit;
  /** Live processes below it, at whatever depth. */
  children: Limit;
  /** Levels of processes below it. */
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

/** What is used up by working. Time passes by itself; places of children are given back. */
interface Amount {
  tokens: number;
  cost: number;
  steps: number;
}

/** What was used; the cost is null where nobody knows a price. */
export type BudgetUsage = Omit<Amount, "cost"> & { cost: number | null };

/** What a process had used before it was suspended: in its own envelope only, it is no news to those above. */
export type EarlierUsage = BudgetUsage & { elapsedMs: number };

const NOTHING: EarlierUsage = { tokens: 0, cost: null, steps: 0, elapsedMs: 0 };

/** What counts the use of a day outside of the kernel, anew from each midnight. */
interface Day {
  spent(): Pick<Amount, "tokens" | "cost">;
  spend(used: BudgetUsage): void;
}

/** Held back until it is settled, once, with what was really used. */
export interface Reservation {
  settle(used: BudgetUsage): void;
}

/**
 * What a process and all below it have used, and what they may (design §2: "A child can never hold more than
 * its parent"). Whatever is used, held back or taken here is so in every envelope above too, or not at all:
 * a tree of any size keeps within the limits of its root, also when a process in the middle has gone.
 */
export class TreeBudget {
  readonly limits: BudgetLimits;
  /** This one, then those above it. */
  readonly #chain: readonly TreeBudget[];
  readonly #used: Amount = { tokens: 0, cost: 0, steps: 0 };
  readonly #held: Amount = { tokens: 0, cost: 0, steps: 0 };
  #holds = 0;
  #priced = false;
  #live = 0;
  #closed = false;
  #isKernels = false;
  #day: Day | undefined;
  /** Those who wait until something that is held back here is settled. Made on first use. */
  #waiting: Set<() => void> | undefined;

  /** One that draws from nothing: a child's is made by `child`. */
  constructor(limits: BudgetLimits, above?: TreeBudget, before: EarlierUsage = NOTHING) {
    this.limits = limits;
    this.#chain = above ? [this, ...above.#chain] : [this];
    add(this.#used, { ...before, cost: before.cost ?? 0 }, 1);
    this.#priced = before.cost !== null;
  }

  /** That of a kernel, which all others draw from: so many processes may live in it. */
  static ofKernel(liveProcesses: Limit): TreeBudget {
    const envelope = new TreeBudget({ ...UNLIMITED, children: liveProcesses });
    envelope.#isKernels = true;
    return envelope;
  }

  /**
   * That of all runs of a project: its limits of tokens and cost are those of a day. They stop calls, not spawns,
   * and are no part of a run's own limits, which last longer than the day.
   */
  static ofDay(above: TreeBudget, day: Day): TreeBudget {
    const envelope = new TreeBudget({ ...UNLIMITED }, above);
    envelope.#day = day;
    return envelope;
  }

  get tokens(): number {
    return this.#used.tokens;
  }

  get steps(): number {
    return this.#used.steps;
  }

  /** In USD; null as long as nothing with a price was used. */
  get cost(): number | null {
    return this.#priced ? this.#used.cost : null;
  }

  /** Live processes below it. */
  get live(): number {
    return this.#live;
  }

  /** What is held back in it, and by how many. */
  get held(): Readonly<Amount & { holds: number }> {
    return { ...this.#held, holds: this.#holds };
  }

  /** Neither used nor held back, in the tightest of the envelopes above and this; Infinity where none is limited. */
  left(what: keyof Amount): number {
    return this.#least((one) => remaining(one.limits[what], one.#spent(what) + one.#held[what]));
  }

  /** What would be left if nothing of what is held back were used. */
  unspent(what: keyof Amount): number {
    return this.#least((one) => remaining(one.limits[what], one.#spent(what)));
  }

  /** The limit that leaves least of it, and what is used of it; undefined where there is none. */
  tightest(what: keyof Amount): { limit: number; used: number; ofDay: boolean } | undefined {
    let found: { limit: number; used: number; ofDay: boolean } | undefined;
    for (const one of this.#chain) {
      const limit = one.limits[what];
      if (limit === null) continue;
      const used = one.#spent(what);
      if (found && found.limit - found.used <= limit - used) continue;
      found = { limit, used, ofDay: one.#day !== undefined };
    }
    return found;
  }

  /** Whether this or one above has a limit of it. */
  limited(what: keyof Amount): boolean {
    return this.#chain.some((one) => one.limits[what] !== null);
  }

  /** Holds back all of it, in all envelopes, or throws EXHAUSTED and holds nothing. */
  reserve(amount: Amount): Reservation {
    for (const what of AMOUNTS) {
      if (amount[what] > this.left(what) + ROUNDING) {
        throw new SyscallError(
          "EXHAUSTED",
          `${amount[what]} ${NAMES[what]} are asked for and ${this.left(what)} are left of what the process may use.`,
        );
      }
    }
    for (const one of this.#chain) {
      add(one.#held, amount, 1);
      one.#holds++;
    }
    let settled = false;
    return {
      settle: (used) => {
        if (settled) throw new SyscallError("INTERNAL", "What was held back is settled a second time.");
        settled = true;
        for (const one of this.#chain) one.#giveBack(amount);
        this.#use(used);
        // Last: it may fail to write it down, and then nothing is left half done.
        for (const one of this.#chain) {
          if (one.#day && (one.limited("tokens") || one.limited("cost"))) one.#day.spend(used);
        }
      },
    };
  }

  /** What a child has used while this one was not above it. The day has counted it. */
  charge(used: BudgetUsage): void {
    this.#use(used);
  }

  /** Resolves when something that is held back beside it was settled. Throws the signal's reason. */
  async changed(signal: AbortSignal): Promise<void> {
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
   * The envelope of a new process below this one, with no wider limits than what this one still has. It takes
   * a place in all above until it is closed. EXHAUSTED where there is none, or nothing to live by. `before`:
   * of one that is gone on with.
   */
  child(wanted: BudgetLimits, elapsedMs: number, before: EarlierUsage = NOTHING): TreeBudget {
    this.requireRoom(elapsedMs);
    const envelope = new TreeBudget(
      {
        tokens: within(wanted.tokens, this.#ofRuns("tokens") + before.tokens),
        cost: within(wanted.cost, this.#ofRuns("cost") + (before.cost ?? 0)),
        steps: within(wanted.steps, this.#ofRuns("steps") + before.steps),
        timeMs: within(wanted.timeMs, remaining(this.limits.timeMs, elapsedMs) + before.elapsedMs),
        children: wanted.children,
        depth: within(wanted.depth, this.limits.depth === null ? Infinity : this.limits.depth - 1),
      },
      this,
      before,
    );
    for (const one of this.#chain) one.#live++;
    return envelope;
  }

  /** EXHAUSTED when no process can be spawned below this one. `elapsedMs`: what of its time has passed. */
  requireRoom(elapsedMs: number): void {
    if (this.limits.depth !== null && this.limits.depth < 1) throw refusal(TOO_DEEP);
    const full = this.#chain.find(({ limits, live }) => limits.children !== null && live >= limits.children);
    const places = full?.limits.children ?? 0;
    if (full) throw full.#isKernels ? kernelIsFull(places) : refusal(tooMany(places));
    const spent = AMOUNTS.find((what) => this.#ofRuns(what) <= 0);
    if (spent) throw refusal(`No ${NAMES[spent]} are left for it`);
    if (remaining(this.limits.timeMs, elapsedMs) <= 0) throw refusal("No time is left for it");
  }

  /** Its process has gone: its place is free. What it has used stays used above. */
  close(): void {
    if (this.#closed) throw new SyscallError("INTERNAL", "A process has given its place back a second time.");
    this.#closed = true;
    for (const one of this.#chain.slice(1)) one.#live--;
  }

  #giveBack(amount: Amount): void {
    add(this.#held, amount, -1);
    this.#holds--;
    // Cents are fractions that do not add up to nothing again.
    if (this.#holds === 0) this.#held.cost = 0;
  }

  #use(used: BudgetUsage): void {
    for (const one of this.#chain) {
      add(one.#used, { ...used, cost: used.cost ?? 0 }, 1);
      if (used.cost !== null) one.#priced = true;
      for (const wake of [...(one.#waiting ?? [])]) wake();
    }
  }

  /** The day is looked up only where it has a limit. */
  #spent(what: keyof Amount): number {
    if (!this.#day || what === "steps" || this.limits[what] === null) return this.#used[what];
    return this.#day.spent()[what];
  }

  /** What the runs above and this one have left of it, whatever the day has. */
  #ofRuns(what: keyof Amount): number {
    return this.#least((one) => (one.#day ? Infinity : remaining(one.limits[what], one.#used[what])));
  }

  #least(leftOf: (envelope: TreeBudget) => number): number {
    let least = Infinity;
    for (const one of this.#chain) least = Math.min(least, leftOf(one));
    return least;
  }
}

/** Of fractions of a cent; a whole token is far more. */
const ROUNDING = 1e-9;
const AMOUNTS = ["tokens", "cost", "steps"] as const;
const NAMES = { tokens: "tokens", cost: "USD", steps: "steps" } as const;

const TOO_DEEP = "It would stand deeper than processes may be spawned (setting spawn_depth)";

function tooMany(places: number): string {
  return `All ${places} places for processes below this run are taken (setting live_children)`;
}

function kernelIsFull(places: number): SyscallError {
  return new SyscallError(
    "EXHAUSTED",
    `No process can be spawned: ${places} live here already, and no more may (setting live_processes). Wait until some have ended, or end some: \`rnix ps --all-projects\` lists them.`,
  );
}

/** Read by models, who would try it again and again. */
function refusal(why: string): SyscallError {
  return new SyscallError(
    "EXHAUSTED",
    `No process can be spawned here. ${why}. Do not try again: do the work in this process, with the tools it has.`,
  );
}

function add(sum: Amount, amount: Amount, sign: 1 | -1): void {
  for (const what of AMOUNTS) sum[what] += sign * amount[what];
}

function remaining(limit: Limit, used: number): number {
  return limit === null ? Infinity : Math.max(0, limit - used);
}

/** No child's limit is wider than what its parent has. */
function within(limit: Limit, bound: number): Limit {
  if (bound === Infinity) return limit;
  return limit === null ? bound : Math.min(limit, bound);
}
