/** Checks and computes the folders, rights, limits and other options of a new process. A resumed run has recorded ones. */

import { isWithin, realOrSame } from "../../lib/inner-path.ts";
import { stricterTaint } from "../../lib/taint.ts";
import {
  budgetOf,
  keyOf,
  namesWith,
  OPTION_NAMES,
  objectOf,
  optionOf,
  pickOptions,
} from "../../options/option-list.ts";
import type { ProcessOptions } from "../../options/option-types.ts";
import { SyscallError } from "../../plugin/index.ts";
import { withinParent } from "../../proxy/host-rules.ts";
import type { Namespace } from "../../vfs/namespace.ts";
import type { BudgetLimits, TreeBudget } from "../budget/budget.ts";
import { confinedFact, factsOf } from "../permission/coverage.ts";
import { Permissions } from "../permission/permissions.ts";
import type { Process } from "../process/process.ts";
import type { AgentInfo, Limit, ProcessKind, ProviderChoice, SpawnOpts } from "../types.ts";

/** Fails with PERMISSION for a folder outside the parent's folders. */
export function requireWithinParent(given: SpawnOpts, parent: Process): void {
  const project = given.worktree ? [] : [given.project.dir];
  requireFolders([...project, ...(given.folders ?? [])], parent);
}

/** Fails with PERMISSION when a child may not work in one of these folders. */
export function requireFolders(wanted: readonly string[], parent: Process): void {
  // As a folder of the child, a folder that is open for reading only would be open for writing too.
  const readOnly = parent.permissions.opened.flatMap(({ dir, write }) => (write ? [] : [dir]));
  const folders = foldersOf(parent)
    .filter((dir) => !readOnly.includes(dir))
    .map(realOrSame);
  const outside = wanted.find((dir) => !folders.some((folder) => isWithin(folder, realOrSame(dir))));
  if (outside !== undefined) {
    const message = `${outside} is outside the folders of process ${parent.pid} (${foldersOf(parent).join(", ")}). A child can't use more than its parent.`;
    throw new SyscallError("PERMISSION", message);
  }
}

/** The folders that the process may use: its project, those of `--add`, and those that a person has opened. */
export function foldersOf({ spec: { opts }, permissions }: Process): string[] {
  return [opts.project.dir, ...(opts.folders ?? []), ...permissions.opened.map(({ dir }) => dir)];
}

/** The rights of a new process: the spawner's rules, else the agent's. A child's rights are always within its parent's. */
export function permissionsOf(
  agent: AgentInfo,
  opts: SpawnOpts,
  namespace: Namespace,
  parent: Process | undefined,
  expected?: readonly string[],
): Permissions {
  const facts = { ...factsOf(namespace), expected, ...confinedFact(opts) };
  const allow = [...(opts.allow ?? agent.allowedTools), ...(opts.unasked ?? [])];
  const deny = opts.deny ?? [];
  const folders = (opts.folders ?? []).map(realOrSame);
  const places = { ...facts, projectDir: opts.project.dir, cwd: opts.cwd, folders };
  const above =
    parent?.permissions.withFacts(facts) ?? (opts.within && Permissions.from(opts.within, places));
  const asking = (rights: Permissions): Permissions => {
    const made = rights.withAsks(opts, agent.ask);
    return opts.allow === undefined ? made : made.fixed();
  };
  if (above) return asking(above.child(allow, deny, { cwd: opts.cwd, projectDir: opts.project.dir }));
  const { ask, askMode, alwaysAllowed = [], unasked = [] } = opts;
  // These open folders, whose real paths are looked up once.
  if (alwaysAllowed.length > 0 || unasked.length > 0)
    return asking(Permissions.of({ allow, deny, ...places }));
  const given = { allow, deny, ...places, ask, askMode, ofAgent: agent.ask, fixed: opts.allow !== undefined };
  if (!ofLast || !Bun.deepEquals(ofLast.given, given, true))
    ofLast = { given, rights: asking(Permissions.of({ allow, deny, ...places })) };
  return ofLast.rights;
}

/** Of the last process without a parent. Thousands of equal ones share its rights, which never change. */
let ofLast: { given: object; rights: Permissions } | undefined;

/**
 * The process's own limits; those of its ancestors apply as well. Default limits are for agents only: a supervisor, for
 * instance, has none.
 */
export function limitsOf(kind: ProcessKind, agent: AgentInfo, opts: SpawnOpts): BudgetLimits {
  const { limits, chat, script } = opts;
  const ofChat = chat && { max_steps: limits.chat_max_steps, timeout: limits.chat_timeout };
  const ofScript = script && { max_steps: limits.workflow_max_steps, timeout: limits.workflow_timeout };
  const defaults: Partial<SpawnOpts["limits"]> =
    kind === "agent" ? { ...limits, ...ofChat, ...ofScript } : {};
  return {
    ...budgetOf((name) => first(opts[name], agent[name], defaults[keyOf(name)])),
    children: first(defaults.live_children),
    depth: first(defaults.spawn_depth),
  };
}

/** The process's other options: of the request, else of its agent, else of its parent if inherited, else of the settings. */
export function settledOptions(
  agent: AgentInfo,
  opts: SpawnOpts,
  parent: Process | undefined,
): Partial<SpawnOpts> {
  const settled = OPTION_NAMES.flatMap((name) => {
    const { kind, process, agent: ofAgent, inherited, setting } = optionOf(name);
    if (!process || kind === "limit" || Reflect.get(opts, name) !== undefined) return [];
    const agents: unknown = ofAgent && Reflect.get(agent, name);
    // null: `unlimited`. A parent's limit holds all the same.
    if (agents === null) return [];
    const value: unknown =
      agents ??
      (inherited && parent && Reflect.get(parent.spec.opts, name)) ??
      (setting && Reflect.get(opts.limits, keyOf(name)));
    return value === null ? [] : [[name, value] as const];
  });
  const own = objectOf<ProcessOptions>(settled);
  const above = parent?.spec.opts;
  const narrowed = above && inheritedOptions(above, { ...own, ...pickOptions(opts, INHERITED) });
  // A chat ends when the user ends it: no attempt is left for a failed check.
  return { ...own, ...narrowed, ...(opts.chat && { check_attempts: 1 }) };
}

const INHERITED = namesWith({ inherited: true });

/** The inherited options of a child, or of a job that a run makes: none allows more than those of `parent`. */
export function inheritedOptions(parent: ProcessOptions, own: ProcessOptions): ProcessOptions {
  const narrowed: ProcessOptions = {
    network: withinParent(parent.network, own.network),
    taint: stricterTaint(parent.taint, own.taint),
  };
  const values = INHERITED.map(
    (name) => [name, narrowed[name] ?? smallerOf(parent[name], own[name])] as const,
  );
  return objectOf(values.filter(([, value]) => value !== undefined));
}

/** The smaller number; of other values the child's own. */
function smallerOf(parent: unknown, own: unknown): unknown {
  return typeof parent === "number" && typeof own === "number" ? Math.min(parent, own) : (own ?? parent);
}

/** A cost limit requires a known price. */
export function requirePrice(limits: BudgetLimits, { provider }: SpawnOpts, above: TreeBudget): void {
  if (!provider || provider.price || provider.plays) return;
  if (limits.cost === null && !above.limited("cost")) return;
  const message = `A cost limit (--max-cost, max_cost, cost_per_day) requires a known price, and the price of ${provider.model}${addressOf(provider)} is not known. Write price: {input, output} in USD per million tokens under providers: ${provider.name}: models: "${provider.model}" into ~/.config/rnix/providers.yaml, or limit the tokens instead (--budget).`;
  throw new SyscallError("INVALID", message);
}

/** Known prices are those of the provider's own address. */
function addressOf({ config }: ProviderChoice): string {
  return config.base_url === undefined ? "" : ` at ${config.base_url}`;
}

/** A cost limit also holds for fallbacks: one without a price is left out, with a notice. */
export function leaveOutUnpriced({ spec, model: { fallbacks }, notices }: Process, above: TreeBudget): void {
  if (spec.budget.limits.cost === null && !above.limited("cost")) return;
  for (const choice of fallbacks.filter(({ price }) => !price)) {
    fallbacks.splice(fallbacks.indexOf(choice), 1);
    notices.push(
      `The fallback ${choice.name}/${choice.model} is left out: the run has a cost limit, and the price is not known.`,
    );
  }
}

/** The first limit that is not undefined; null, no limit, counts. */
function first(...limits: (Limit | undefined)[]): Limit {
  return limits.find((limit) => limit !== undefined) ?? null;
}

/**
 * For each skill of a new process, a sentence with the tools that the skill needs and the process may not use. A skill's
 * list adds no rights.
 */
export function unmetSkillNeeds({ spec, permissions }: Process): string[] {
  const { agent } = spec;
  const unmet = [...agent.skills, ...agent.deferredSkills].flatMap(({ name, allowedTools }) => {
    const missing = permissions.notHeld(allowedTools ?? []);
    return missing.length === 0 ? [] : [{ name, missing: missing.join(", ") }];
  });
  // An agent that offers every skill of the user may have dozens.
  if (unmet.length > MAX_SINGLE) {
    const list = unmet.map(({ name, missing }) => `${name} (${missing})`).join("; ");
    return [`Skills made for tools that this run may not use: ${list}.`];
  }
  return unmet.map(
    ({ name, missing }) =>
      `Skill ${name} is made for ${missing}, which this run may not use: allowed_tools of agent ${agent.name} and --allow say what it may.`,
  );
}

/** With more skills than this, one sentence lists all of them. */
const MAX_SINGLE = 3;
