import { realpathSync } from "node:fs";
import { relative } from "node:path";
import { SyscallError } from "../../plugin/index.ts";
import type { Namespace } from "../../vfs/namespace.ts";
import type { BudgetLimits, TreeBudget } from "../budget/budget.ts";
import { factsOf } from "../permission/facts.ts";
import { Permissions } from "../permission/permissions.ts";
import type { Process } from "../process/process.ts";
import type { AgentInfo, Limit, ProcessKind, SpawnOpts } from "../types.ts";

/*
 * What a new process may use and touch, by the word of its spawner, its agent and its parent. Those of a run that
 * is gone on with are in its records.
 */

/** PERMISSION for a folder that the parent may not touch. */
export function requireWithinParent(given: SpawnOpts, parent: Process): void {
  const { opts } = parent.spec;
  const folders = foldersOf(opts).map(realOrSame);
  const outside = foldersOf(given).find(
    (dir) => !folders.some((folder) => isInside(folder, realOrSame(dir))),
  );
  if (outside !== undefined) {
    throw new SyscallError(
      "PERMISSION",
      `${outside} is outside of what process ${parent.pid} may touch (${foldersOf(opts).join(", ")}), and its child gets no more than that.`,
    );
  }
}

export function foldersOf({ project, folders = [] }: SpawnOpts): string[] {
  return [project.dir, ...folders];
}

export function isInside(folder: string, path: string): boolean {
  const inner = relative(folder, path);
  return inner !== ".." && !inner.startsWith("../");
}

export function realOrSame(dir: string): string {
  try {
    return realpathSync(dir);
  } catch {
    return dir; // Not there: whoever opens something in it will say so.
  }
}

/** The spawner's list, or else the agent's; a child's is always within its parent's. */
export function permissionsOf(
  agent: AgentInfo,
  opts: SpawnOpts,
  namespace: Namespace,
  parent: Process | undefined,
  expected?: readonly string[],
): Permissions {
  const facts = { ...factsOf(namespace), expected };
  const allow = opts.allow ?? agent.allowedTools;
  const deny = opts.deny ?? [];
  const rights = parent
    ? parent.permissions.withFacts(facts).child(allow, deny, opts.cwd)
    : Permissions.of({ allow, deny, ...facts, projectDir: opts.project.dir, cwd: opts.cwd });
  return opts.allow === undefined ? rights : rights.fixed();
}

/**
 * What it may use if nobody above has less. Only agents have limits that nobody gave them: what the system
 * itself runs, a supervisor for instance, is its operator's.
 */
export function limitsOf(kind: ProcessKind, agent: AgentInfo, opts: SpawnOpts): BudgetLimits {
  const defaults: Partial<SpawnOpts["limits"]> = kind === "agent" ? opts.limits : {};
  return {
    tokens: first(opts.contextBudget, agent.contextBudget, defaults.context_budget),
    cost: first(opts.maxCost, agent.maxCost, defaults.max_cost),
    steps: first(opts.maxSteps, agent.maxSteps, defaults.max_steps),
    timeMs: first(opts.timeoutMs, agent.timeoutMs, defaults.timeout),
    children: first(defaults.live_children),
    depth: first(defaults.spawn_depth),
  };
}

/** What costs nobody knows how much can't be kept within a cost. */
export function requirePrice(limits: BudgetLimits, { provider }: SpawnOpts, above: TreeBudget): void {
  if (!provider || provider.price || provider.plays) return;
  if (limits.cost === null && !above.limited("cost")) return;
  throw new SyscallError(
    "INVALID",
    `A cost limit (--max-cost, max_cost, cost_per_day) needs the model's price, and that of ${provider.model} is not known. Write price: {input, output} in USD per million tokens under providers: ${provider.name}: models: "${provider.model}" into ~/.config/rnix/providers.yaml, or limit the tokens instead (--budget).`,
  );
}

/** A cost limit holds for what the run falls back to as well: what has no price is left out, and that is told. */
export function leaveOutUnpriced({ spec, fallbacks, notices }: Process, above: TreeBudget): void {
  if (spec.budget.limits.cost === null && !above.limited("cost")) return;
  for (const choice of fallbacks.filter(({ price }) => !price)) {
    fallbacks.splice(fallbacks.indexOf(choice), 1);
    notices.push(
      `The fallback ${choice.name}/${choice.model} is left out: there is a cost limit, and its price is not known.`,
    );
  }
}

/** The first that somebody spoke of; null is a word too: no limit. */
function first(...limits: (Limit | undefined)[]): Limit {
  return limits.find((limit) => limit !== undefined) ?? null;
}
