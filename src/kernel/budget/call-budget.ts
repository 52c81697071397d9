import { SyscallError, type Usage } from "../../plugin/index.ts";
import type { ModelRequest } from "../llm/model-request.ts";
import type { ProviderChoice } from "../types.ts";
import type { TreeBudget } from "./budget.ts";
import { estimateRequest } from "./token-estimate.ts";

/**
 * Under a budget, an answer of a model whose longest one is not known gets so much room: more than a step's
 * answer takes, and not all there is, or none could run beside it.
 */
const ASSUMED_OUTPUT = 32_000;

/** A model call that is paid for, whatever it comes to. */
export interface CallBudget {
  /** The answer's room, in tokens; undefined: the model's own. */
  maxOutput: number | undefined;
  /** It is less than what the model could give, because the budget has no more. */
  lowered: boolean;
  /** Called once, when the call has ended, with what it has really used; `steps` is 0 where the step goes on. */
  pay(used: Usage, steps?: 0 | 1): void;
}

/** What a run has not enough of for another step. */
export type BudgetShortage = { reason: "max_steps" | "budget_exceeded"; error: SyscallError };

/**
 * Holds back what one step may use: the step, the input's estimate and the longest answer (design §4, "Budget
 * is a reservation"). The answer gets less room where the budget ends. What only calls under way hold back is
 * waited for: they give back what they do not use. `request.max_output` is for the caller to set. `input`: the
 * caller's own estimate of it; `steps` of the run that it is, 1 if absent.
 */
export async function reserveCall(
  envelope: TreeBudget,
  request: ModelRequest,
  { price, maxOutput }: Pick<ProviderChoice, "price" | "maxOutput">,
  signal: AbortSignal,
  { input = estimateRequest(request), steps = 1 }: { input?: number; steps?: 0 | 1 } = {},
): Promise<CallBudget | BudgetShortage> {
  const limited = envelope.limited("tokens") || envelope.limited("cost");
  const longest = maxOutput ?? ASSUMED_OUTPUT;
  const room = (look: "left" | "unspent"): number =>
    roomFor(input, { tokens: envelope[look]("tokens"), cost: envelope[look]("cost") }, price);
  for (;;) {
    if (envelope.left("steps") < steps) return noStep(envelope);
    const possible = Math.min(longest, room("unspent"));
    if (possible < 1) return noBudget(envelope, input);
    if (room("left") >= possible) {
      const amount = { input_tokens: input, output_tokens: possible, cached_tokens: 0 };
      const hold = envelope.reserve({
        tokens: input + possible,
        cost: costOf(amount, price) ?? 0,
        steps,
      });
      return {
        maxOutput: limited ? possible : maxOutput,
        lowered: possible < longest,
        pay: (used, made = steps) => {
          const tokens = used.input_tokens + used.output_tokens;
          // A model that has failed and used nothing says nothing of what the run costs.
          const cost = made === 0 && tokens === 0 ? (used.cost_usd ?? null) : costOf(used, price);
          hold.settle({ tokens, cost, steps: made });
        },
      };
    }
    await envelope.changed(signal);
  }
}

/**
 * The same for a further turn of a program that asks its model by itself. What that will use is not known here: it
 * is only looked whether anything is left, so that one turn at most goes beyond the budget.
 */
export function reserveTurn(
  envelope: TreeBudget,
  { price }: Pick<ProviderChoice, "price">,
): CallBudget | BudgetShortage {
  if (envelope.left("steps") < 1) return noStep(envelope);
  if (envelope.unspent("tokens") <= 0 || envelope.unspent("cost") <= 0) return noBudget(envelope, 0);
  const hold = envelope.reserve({ tokens: 0, cost: 0, steps: 1 });
  return {
    maxOutput: undefined,
    lowered: false,
    pay: (used, steps = 1) =>
      hold.settle({ tokens: used.input_tokens + used.output_tokens, cost: costOf(used, price), steps }),
  };
}

/** In USD; prices are per million tokens. The other side's own word counts before them. null: not known. */
export function costOf(used: Usage, price: ProviderChoice["price"]): number | null {
  if (used.cost_usd !== undefined) return used.cost_usd;
  if (!price) return null;
  const fresh = used.input_tokens - used.cached_tokens;
  return (
    (fresh * price.input + used.cached_tokens * price.cached + used.output_tokens * price.output) / MILLION
  );
}

const MILLION = 1_000_000;

/** Tokens of an answer that fit in beside the input. */
function roomFor(
  input: number,
  budget: { tokens: number; cost: number },
  price: ProviderChoice["price"],
): number {
  const byTokens = budget.tokens - input;
  if (!price || budget.cost === Infinity) return byTokens;
  const cost = budget.cost - (input * price.input) / MILLION;
  if (cost <= 0) return 0;
  if (price.output === 0) return byTokens;
  // A whole number of tokens may come out as a hair less than itself.
  return Math.min(byTokens, Math.floor((cost * MILLION) / price.output + 1e-6));
}

function noStep({ limits }: TreeBudget): BudgetShortage {
  const all = limits.steps === null ? "all the steps there were" : `all of its ${limits.steps} steps`;
  const message = `The run and its children used ${all}. Give it more with --max-steps.`;
  return { reason: "max_steps", error: new SyscallError("EXHAUSTED", message) };
}

function noBudget(envelope: TreeBudget, input: number): BudgetShortage {
  const what = envelope.unspent("tokens") > input ? "cost" : "tokens";
  const { limit = 0, used = 0, ofDay = false } = envelope.tightest(what) ?? {};
  const spent = what === "cost" ? `$${used.toFixed(4)} of $${limit}` : `${used} of ${limit} tokens`;
  const [name, more] = BUDGETS[what][ofDay ? "day" : "run"];
  const message = `${name} does not cover another call: ${spent} are used, and the next call's input is about ${input} tokens. ${more}`;
  return { reason: "budget_exceeded", error: new SyscallError("EXHAUSTED", message) };
}

/** What a limit is called, and how there comes to be more of it. */
const BUDGETS: Record<"tokens" | "cost", Record<"run" | "day", [name: string, more: string]>> = {
  tokens: {
    run: ["The token budget", "Give it more with --budget."],
    day: [
      "The project's token budget for a day",
      "It begins anew at midnight, local time; tokens_per_day in config.yaml sets it.",
    ],
  },
  cost: {
    run: ["The cost limit", "Give it more with --max-cost."],
    day: [
      "The project's cost limit for a day",
      "It begins anew at midnight, local time; cost_per_day in config.yaml sets it.",
    ],
  },
};
