/** Reserves and charges the budget of one model call. */

import { type Lazy, lazy } from "../../lib/caches.ts";
import type { Cancellation } from "../../lib/clock.ts";
import { type ModelPrice, SyscallError, type TokenPrice, type Usage } from "../../plugin/index.ts";
import { addUsage, noUsage, subtractUsage } from "../../run/usage.ts";
import { type DailySpending, localDay, spendingOfAgentJobs } from "../../store/daily-spending.ts";
import { recordOrFail } from "../errors/kernel-errors.ts";
import type { Core } from "../tiers/core.ts";
import type { PaidRequest, ProviderChoice, SpawnOpts } from "../types.ts";
import { type BudgetUsage, TreeBudget } from "./budget.ts";
import { estimateRequest, type RequestInput } from "./tokens.ts";

/**
 * The output tokens reserved for a model without a known output limit: more than an answer takes, but not the whole
 * budget, or no other call could run at the same time.
 */
const ASSUMED_OUTPUT = 32_000;

export interface CallBudget {
  /** The answer's maximum output in tokens; undefined: the model's own. */
  maxOutput: number | undefined;
  /** Whether `maxOutput` was lowered to fit the budget. */
  lowered: boolean;
  /** Charges what the call used. Called once, when the call has ended; `steps` is 0 if the step continues. */
  pay(used: Usage, steps?: 0 | 1): void;
}

interface ReserveOptions {
  input?: number;
  steps?: 0 | 1;
  /** Called before each wait for what other calls have reserved. */
  onWait?(): void;
}

/** Which limit prevents another step. */
export type BudgetShortage = { reason: "max_steps" | "budget_exceeded"; error: SyscallError };

/**
 * Reserves what one call may use: a step, the estimated input and the longest answer. Near the end of the budget the
 * answer's limit is lowered. If other calls have reserved what is missing, it waits until they end. The caller sets
 * `request.max_output`. `input` is the caller's own estimate; `steps` is 0 if the call is not a step.
 */
export async function reserveCall(
  budget: TreeBudget,
  request: RequestInput,
  { price, maxOutput, outputLimit = Infinity }: Pick<ProviderChoice, "price" | "maxOutput" | "outputLimit">,
  signal: Cancellation,
  { input = estimateRequest(request), steps = 1, onWait }: ReserveOptions = {},
): Promise<CallBudget | BudgetShortage> {
  const limited = budget.limited("tokens") || budget.limited("cost");
  const longest = maxOutput ?? Math.min(ASSUMED_OUTPUT, outputLimit);
  const outputFrom = (amount: "left" | "unspent"): number =>
    outputTokensFor(input, { tokens: budget[amount]("tokens"), cost: budget[amount]("cost") }, price);
  for (;;) {
    if (budget.left("steps") < steps) return stepShortage(budget);
    const possible = Math.min(longest, outputFrom("unspent"));
    if (possible < 1) return budgetShortage(budget, input);
    if (outputFrom("left") >= possible) {
      const reservation = budget.reserve({
        tokens: input + possible,
        cost: price ? highestCost(input, possible, price) : 0,
        steps,
      });
      return {
        maxOutput: limited ? possible : maxOutput,
        lowered: possible < longest,
        pay: (used, made = steps) => {
          const tokens = used.input_tokens + used.output_tokens;
          // A failed call without usage has no cost, not a cost of 0.
          const cost = made === 0 && tokens === 0 ? (used.cost_usd ?? null) : costOf(used, price);
          reservation.settle({ tokens, cost, steps: made });
        },
      };
    }
    onWait?.();
    await budget.changed(signal);
  }
}

/**
 * Reserves a further turn of a program that makes its own model requests. Their use is not known in advance, so it
 * only checks that something is left: at most one turn exceeds the budget.
 */
export function reserveTurn(
  budget: TreeBudget,
  { price }: Pick<ProviderChoice, "price">,
): CallBudget | BudgetShortage {
  if (budget.left("steps") < 1) return stepShortage(budget);
  if (budget.unspent("tokens") <= 0 || budget.unspent("cost") <= 0) return budgetShortage(budget, 0);
  const reservation = budget.reserve({ tokens: 0, cost: 0, steps: 1 });
  return {
    maxOutput: undefined,
    lowered: false,
    pay: (used, steps = 1) =>
      reservation.settle({
        tokens: used.input_tokens + used.output_tokens,
        cost: costOf(used, price),
        steps,
      }),
  };
}

/** The cost of a request in USD. A cost that the provider reports overrides the price. null: not known. */
export function costOf(used: Usage, price: ModelPrice | undefined): number | null {
  if (used.cost_usd !== undefined) return used.cost_usd;
  if (!price) return null;
  const { input, cached, cacheWrite = input, output } = pricesFor(used.input_tokens, price);
  const written = used.cache_write_tokens ?? 0;
  const fresh = used.input_tokens - used.cached_tokens - written;
  return (
    (fresh * input + used.cached_tokens * cached + written * cacheWrite + used.output_tokens * output) /
    MILLION
  );
}

const MILLION = 1_000_000;

/** A long request has other prices for all its tokens. */
function pricesFor(input: number, price: ModelPrice): TokenPrice {
  return price.long !== undefined && input > price.long.above ? price.long : price;
}

/** The cost if all the input is written to the cache. */
function highestCost(input: number, output: number, price: ModelPrice): number {
  const prices = pricesFor(input, price);
  return (input * inputPrice(prices) + output * prices.output) / MILLION;
}

function inputPrice({ input, cacheWrite = 0 }: TokenPrice): number {
  return Math.max(input, cacheWrite);
}

/** The output tokens that the budget allows beside the input. */
function outputTokensFor(
  input: number,
  budget: { tokens: number; cost: number },
  price: ModelPrice | undefined,
): number {
  const byTokens = budget.tokens - input;
  if (!price || budget.cost === Infinity) return byTokens;
  const prices = pricesFor(input, price);
  const cost = budget.cost - (input * inputPrice(prices)) / MILLION;
  if (cost <= 0) return 0;
  if (prices.output === 0) return byTokens;
  // Rounding may make a whole number of tokens slightly less.
  return Math.min(byTokens, Math.floor((cost * MILLION) / prices.output + 1e-6));
}

function stepShortage({ limits }: TreeBudget): BudgetShortage {
  const all = limits.steps === null ? "all available steps" : `all ${limits.steps} steps`;
  const message = `The run and its children used ${all}. Raise the limit with --max-steps.`;
  return { reason: "max_steps", error: new SyscallError("EXHAUSTED", message) };
}

function budgetShortage(budget: TreeBudget, input: number): BudgetShortage {
  const what = budget.unspent("tokens") > input ? "cost" : "tokens";
  const { limit = 0, used = 0, of = "run" } = budget.tightest(what) ?? {};
  const spent = what === "cost" ? `$${used.toFixed(4)} of $${limit}` : `${used} of ${limit} tokens`;
  const [name, more] = LIMIT_TEXTS[what][of];
  const message = `${name} does not cover another call: ${spent} are used, and the next call's input is about ${input} tokens. ${more}`;
  return { reason: "budget_exceeded", error: new SyscallError("EXHAUSTED", message) };
}

/** The name of each limit, and how to raise it. */
const againAtMidnight = (setting: string) =>
  `It starts again at midnight, local time; ${setting} in config.yaml sets it.`;
const AGENT_JOBS: [name: string, more: string] = [
  "The token budget for a day of all jobs that runs made in the project",
  againAtMidnight("agent_jobs_tokens_per_day"),
];
const LIMIT_TEXTS: Record<
  "tokens" | "cost",
  Record<"run" | "project" | "agent jobs", [name: string, more: string]>
> = {
  tokens: {
    run: ["The token budget", "Raise it with --budget."],
    project: ["The project's token budget for a day", againAtMidnight("tokens_per_day")],
    "agent jobs": AGENT_JOBS,
  },
  cost: {
    run: ["The cost limit", "Raise it with --max-cost."],
    project: ["The project's cost limit for a day", againAtMidnight("cost_per_day")],
    "agent jobs": AGENT_JOBS,
  },
};

/**
 * The budgets that runs share for a day, from midnight to midnight of the local clock: all runs of a project (settings
 * tokens_per_day and cost_per_day), and in it those of the jobs that runs made (agent_jobs_tokens_per_day). What was used
 * is on disk and shared with other kernels; reservations are not.
 */
export class DailyBudget {
  readonly #parts: Core;
  readonly #days = new Map<string, SharedDay>();

  constructor(parts: Core) {
    this.#parts = parts;
  }

  /** The budget of a run's project or job, with the limits of this run's settings from now on. */
  of({ project: { dataDir }, limits, provider, job }: SpawnOpts): TreeBudget {
    if (provider?.plays) return this.#parts.budget;
    const { budget } = this.#day("project", dataDir);
    budget.limits.tokens = limits.tokens_per_day;
    budget.limits.cost = limits.cost_per_day;
    if (!job?.by_run) return budget;
    const shared = this.#day("agent jobs", dataDir).budget;
    shared.limits.tokens = limits.agent_jobs_tokens_per_day;
    return shared;
  }

  /** Whether `begin` must be called before a run of the project is built. */
  needsBegin(opts: SpawnOpts): boolean {
    return this.#toBegin(opts).length > 0;
  }

  /**
   * Starts the day's counts. That of a project includes what the records of today's runs have used: a limit may be set
   * during the day.
   */
  async begin(opts: SpawnOpts): Promise<void> {
    const now = this.#parts.clock.now();
    for (const { of, book } of this.#toBegin(opts)) {
      const { spendingSince } = await import("../../store/spending-since.ts");
      const runs = this.#parts.runs(opts.project.dataDir);
      const spent = of === "project" ? await spendingSince(runs, midnight(now)) : { tokens: 0, cost: 0 };
      await book().begin(localDay(now), spent);
    }
  }

  #toBegin({ project: { dataDir }, limits, job }: SpawnOpts): SharedDay[] {
    const days: SharedDay[] = [];
    if (limits.tokens_per_day !== null || limits.cost_per_day !== null)
      days.push(this.#day("project", dataDir));
    if (job?.by_run) days.push(this.#day("agent jobs", dataDir));
    return days.filter(({ book }) => !book().has(localDay(this.#parts.clock.now())));
  }

  #day(of: SharedDay["of"], dataDir: string): SharedDay {
    const key = `${of} ${dataDir}`;
    const known = this.#days.get(key);
    if (known) return known;
    const { clock, runs, userDataDir, budget: kernelBudget } = this.#parts;
    const isProject = of === "project";
    const book = lazy(() =>
      isProject ? runs(dataDir).dailySpending : spendingOfAgentJobs(userDataDir, dataDir),
    );
    const budget = TreeBudget.forDay(isProject ? kernelBudget : this.#day("project", dataDir).budget, {
      of,
      spent: () => recordOrFail(() => book().spent(localDay(clock.now()))),
      spend: ({ tokens, cost }: BudgetUsage) =>
        recordOrFail(() => book().add(localDay(clock.now()), { tokens, cost: cost ?? 0 })),
    });
    const day = { of, budget, book };
    this.#days.set(key, day);
    return day;
  }
}

/** A budget of a day, and where its spending is recorded. */
interface SharedDay {
  of: "project" | "agent jobs";
  budget: TreeBudget;
  book: Lazy<DailySpending>;
}

/** The start of the local day, which may have 23 or 25 hours. */
function midnight(ms: number): number {
  return new Date(ms).setHours(0, 0, 0, 0);
}

/** The process that pays for a model call. */
interface Payer {
  readonly run: { readonly usage: Usage };
  readonly model: { readonly provider: ProviderChoice };
}

/**
 * What the attempts of one model call use, and what is charged of it: to the process, and to the budget reserved for
 * each step. It is charged also if the call fails.
 */
export class CallCharge {
  readonly #usage: Usage;
  /** The provider of this call. After a failure, the process may have another one. */
  readonly #provider: ProviderChoice;
  /** The usage of the attempts before the last, together. */
  #before: Readonly<Usage> = NOTHING;
  #attempt: Readonly<Usage> = NOTHING;
  /** The attempts before the last that are not charged yet. */
  #earlier: readonly Usage[] = NO_ATTEMPTS;
  /** What earlier steps have charged. */
  readonly #paid = noUsage();
  #budget: CallBudget | undefined;

  constructor({ run, model }: Payer, budget: CallBudget) {
    this.#usage = run.usage;
    this.#provider = model.provider;
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

  /** The last report of each attempt counts. */
  report(usage: Usage): void {
    this.#attempt = usage;
  }

  nextAttempt(): void {
    this.#before = this.#total();
    this.#earlier = [...this.#earlier, this.#attempt];
    this.#attempt = NOTHING;
  }

  get attempt(): Readonly<Usage> {
    return this.#attempt;
  }

  /**
   * Charges the current step once: `total` less what earlier steps were charged. `steps` is 0 if none is made. Returns
   * what was used, and what it cost if that is known; `isNew`: it was charged just now.
   */
  pay(total = this.#total(), steps: 0 | 1 = 1): PaidRequest & { isNew: boolean } {
    const used = subtractUsage(total, this.#paid);
    const budget = this.#budget;
    const provider = this.#provider;
    if (budget === undefined) return { provider, used, cost_usd: undefined, isNew: false };
    this.#budget = undefined;
    const cost_usd = this.#costOf(used);
    addUsage(this.#paid, { ...used, cost_usd });
    addUsage(this.#usage, used);
    const tokens = used.input_tokens + used.output_tokens;
    budget.pay(tokens === 0 ? used : { ...used, cost_usd }, steps);
    return { provider, used, cost_usd, isNew: true };
  }

  #total(): Usage {
    const total = { ...this.#before };
    addUsage(total, this.#attempt);
    return total;
  }

  /** The cost of all attempts that `used` contains; undefined if it is not known. */
  #costOf(used: Usage): number | undefined {
    const { price } = this.#provider;
    // Each attempt has the price of its own length.
    const earlier = this.#earlier;
    this.#earlier = NO_ATTEMPTS;
    const attempts = [...earlier, earlier.reduce(subtractUsage, used)];
    const costs = attempts.map((attempt) => costOf(attempt, price));
    return costs.includes(null) ? used.cost_usd : costs.reduce<number>((sum, cost) => sum + (cost ?? 0), 0);
  }
}

/** Shared by the calls that wait for their answer. */
const NOTHING: Readonly<Usage> = noUsage();
const NO_ATTEMPTS: readonly Usage[] = [];
