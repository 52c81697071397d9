/** Plans a resume: the options of a run that continues from its records. */

import { statSync } from "node:fs";
import { type Agent, loadAgent } from "../../config/agents/agents.ts";
import type { ConfigSources } from "../../config/config-sources.ts";
import { MCP } from "../../config/mcp/mcp.ts";
import { providerFacts } from "../../kernel/process/process-info.ts";
import { bareAgent } from "../../kernel/process/process-spec.ts";
import type { AgentInfo, ProcInfo, ProviderChoice, SpawnOpts } from "../../kernel/types.ts";
import { optionsOf, pickOptions } from "../../options/option-list.ts";
import { SyscallError } from "../../plugin/index.ts";
import { recordedLevel, wasWhole } from "../../sandbox/policy.ts";
import { projectOf } from "../../store/files/data-dir.ts";
import { requireOwn } from "../../store/runs/own-run.ts";
import type { Run } from "../records/recorded-run.ts";
import { planSpawn, type SpawnPlan, type SpawnPorts } from "./plan-spawn.ts";
import type { GivenRules, PlacedResume, PlacedSpawn } from "./request-defaults.ts";

/**
 * Plans a resume like a spawn, in the run's own project and with its own provider and model unless it names others. Trust is the current one.
 * Keys are the caller's; without a caller those of `provider` if it is the same, else the user's own (design §2,
 * "Environment"). Fails with INVALID when the project was replaced by another one, and with PERMISSION for a foreign
 * run.
 */
export async function planResume(
  { info, records }: Run,
  request: PlacedResume,
  ports: SpawnPorts,
  provider?: ProviderChoice,
): Promise<SpawnPlan> {
  requireOwn(info);
  requireFolders(info);
  const kept = info.env.values;
  const isChosen = (request.provider ?? request.model) !== undefined;
  const isOther = request.provider !== undefined && request.provider !== info.provider;
  const had = (await records.meta(info.uuid))?.spawned?.mounts ?? [];
  const agentOf = async (name: string, sources: ConfigSources): Promise<Agent> =>
    withServers(await agentOrBlank(name, sources), had);
  const plan = await planSpawn(
    {
      intent: info.intent,
      agent: info.agent,
      provider: request.provider ?? info.provider,
      model: request.model ?? (isOther ? undefined : info.model),
      // The head of a fork has the AGENTS.md of its folder.
      cwd: request.fork ? info.cwd : (info.worktree ?? info.project),
      // Variables that were given to the run, and paths of its programs, stay the same.
      env: { ...request.env, ...kept },
      env_given: Object.keys(kept),
      ...sandboxOf(info),
      ...givenAnew(request),
    },
    undefined,
    ports,
    {
      agentOf,
      provider,
      byFlag: request.provider !== undefined || info.provider_by_flag,
      fallback: isChosen ? undefined : info.fallback,
      rules: givenRules(info),
      base: info.base ? { ...info.base, cwd: info.cwd } : undefined,
      envHad: info.env.names,
    },
  );
  const { opts, notices } = plan;
  try {
    requireSameProject(opts.project.home ?? opts.project.dir, info.project);
    if (request.fork) requireAgent(plan.agent, info);
  } catch (error) {
    opts.devices.release();
    throw error;
  }
  const env = restoredEnvironment(info, opts.env);
  return {
    ...plan,
    notices: [...movedNotice(info, records), ...notices, ...resumeDifferences(info, { ...opts, env })],
    opts: {
      ...opts,
      env,
      // What counts is the mode in the record, unless the user gives another.
      askMode: request.ask_mode,
      worktree: info.worktree !== null,
      // The folder of its records, even if RNIX_DATA_DIR has changed.
      project: { ...opts.project, dataDir: records.dataDir },
      provider: opts.provider && { ...opts.provider, ...(isChosen ? {} : { because: "as before" }) },
    },
  };
}

/**
 * Resolves the model that the user has chosen for a run, by the rules of a spawn. Keys are the caller's; of `current`, the
 * model of a live run, its own. Fails as a spawn does.
 */
export async function planModel(
  run: Run,
  request: Pick<PlacedResume, "env" | "provider" | "model">,
  ports: SpawnPorts,
  current?: ProviderChoice,
): Promise<ProviderChoice> {
  const { opts } = await planResume(run, request, ports, current);
  opts.devices.release();
  if (opts.provider) return opts.provider;
  throw new SyscallError("INTERNAL", "A plan for an agent has no model.");
}

/**
 * Plans a new run that begins with the conversation of a foreign one: like a spawn of its agent in the project of its
 * record. Nothing else of the record is used.
 */
export async function planAdopt(
  { info, records }: Run,
  request: PlacedResume,
  ports: SpawnPorts,
): Promise<SpawnPlan> {
  const cwd = projectOf(records.dataDir) ?? request.cwd;
  if (cwd === undefined) throw new SyscallError("INVALID", 'The request names no folder: expected "cwd".');
  const { intent, agent } = info;
  const plan = await planSpawn(
    { intent, agent, cwd, env: request.env, ...givenAnew(request) },
    undefined,
    ports,
    // Of the checkout, which the record may not trust, no definition counts.
    { base: info.base ? { ...info.base, cwd } : undefined },
  );
  const { project } = plan.opts;
  return { ...plan, opts: { ...plan.opts, project: { ...project, dataDir: records.dataDir } } };
}

/**
 * Plans the resume of a child with its parent: with the parent's environment, and with its provider if the child had
 * the same.
 */
export async function planChildResume(
  uuid: string,
  child: Run | undefined,
  ports: SpawnPorts,
): Promise<SpawnPlan> {
  const parent = ports.parent(uuid);
  if (!parent || !child) throw new SyscallError("NOT_FOUND", "The agent or its record no longer exists.");
  const { env, provider, attended, detached } = parent;
  const outputs = parent.outputs?.slice();
  return planResume(child, { env, attended, outputs, stream: !detached }, ports, provider ?? undefined);
}

/** A run that began in a sandbox continues in one. */
function sandboxOf({ sandbox }: ProcInfo): Pick<PlacedSpawn, "sandbox" | "sandbox_level"> {
  const level = recordedLevel(sandbox);
  if (level === null) return { sandbox: "off" };
  return { sandbox: wasWhole(sandbox) ? "required" : "auto", sandbox_level: level };
}

/** What a resume decides like a spawn. */
function givenAnew(request: PlacedResume) {
  const { attended, outputs, notices, stream } = request;
  return { ...pickOptions(request, optionsOf("resume")), attended, outputs, notices, detach: !stream };
}

/** The rules that the run was spawned with: a server that they left out stays out. */
function givenRules({ permissions: { fixed, allow, deny } }: ProcInfo): GivenRules {
  return { allow: fixed ? allow[0] : undefined, deny };
}

/** A run outlives its agent's files: the head of its prompt and its rights are in its records. */
async function agentOrBlank(name: string, sources: ConfigSources): Promise<Agent> {
  try {
    return await loadAgent(name, sources);
  } catch (error) {
    if (!(error instanceof SyscallError) || error.code !== "NOT_FOUND") throw error;
    return {
      ...bareAgent(name),
      allowedTools: [],
      deny: [],
      mcp: [],
      mcpAll: false,
      source: "",
      tier: "embedded",
      checksWithheld: false,
      withheld: [],
      untrusted: [],
      notices: [`the agent ${name} no longer exists: no further skill of it can be loaded`],
    };
  }
}

/**
 * The run keeps the MCP servers that it began with, even if the agent's file names others now. Its rights and limits
 * are in its records, so the current trust of the file does not reduce them.
 */
function withServers(agent: Agent, had: readonly { type: string; name: string }[]): Agent {
  const named = new Set(agent.mcp.map(({ name }) => name));
  const hadNames = new Set(had.filter(({ type }) => type === MCP).map(({ name }) => name));
  const gone = had.filter(({ type, name }) => type === MCP && !named.has(name));
  const wrong = (message: string): SyscallError => new SyscallError("INVALID", message);
  return {
    ...agent,
    withheld: [],
    mcpAll: false,
    mcp: [
      ...gone.map(({ name }) => ({ name, required: false, had: true as const, wrong })),
      ...agent.mcp.map((wish) => (hadNames.has(wish.name) ? { ...wish, untrusted: undefined } : wish)),
    ],
  };
}

function movedNotice({ moved_from, project }: ProcInfo, { dataDir }: Run["records"]): string[] {
  if (moved_from === undefined) return [];
  return [`recorded in ${moved_from}, resumed in ${projectOf(dataDir) === null ? dataDir : project}`];
}

/** A fork's prompt head is built from today's agent. */
function requireAgent(agent: AgentInfo | null, { uuid, agent: name }: ProcInfo): void {
  if (agent && agent.source !== "") return;
  const message = `The agent ${name} of run ${uuid} no longer exists, and a fork needs it. Resume the run itself: rnix resume ${uuid}.`;
  throw new SyscallError("NOT_FOUND", message);
}

function requireSameProject(found: string, project: string): void {
  if (found === project) return;
  const message = `The run's project was ${project}, and that folder belongs to ${found} now. Move it back, or start a new run with rnix spawn.`;
  throw new SyscallError("INVALID", message);
}

/** Variables that identify a terminal or session: no run relies on them. */
const OF_A_SESSION =
  /^(?:_|OLDPWD|SHLVL|COLORTERM|TERM_\w+|DISPLAY|WAYLAND_\w+|WINDOWID|VTE_\w+|TMUX\w*|STY|SSH_\w+|XDG_SESSION_\w+|DBUS_\w+|VSCODE_\w+)$/;
/** Names in one notice. */
const NAMED = 10;

/** Fails with INVALID when a folder of the run no longer exists. */
export function requireFolders({ uuid, project, cwd }: ProcInfo): void {
  for (const [what, folder] of [
    ["project", project],
    ["folder", cwd],
  ]) {
    if (folder !== undefined && isFolder(folder)) continue;
    const message = `The ${what} of run ${uuid}, ${folder}, no longer exists. Move it back, or start a new run with rnix spawn.`;
    throw new SyscallError("INVALID", message);
  }
}

/** The variables that the run had: with the recorded value if there is one, else the current value. No others. */
export function restoredEnvironment(
  { env }: ProcInfo,
  today: Record<string, string>,
): Record<string, string> {
  const had = new Set(env.names);
  return Object.fromEntries(Object.entries(today).filter(([name]) => had.has(name)));
}

/** What the run had and no longer has, or has changed: shown to the user who resumes it. */
export function resumeDifferences(info: ProcInfo, { env: today, devices, provider }: SpawnOpts): string[] {
  const { env, versions } = info;
  const missing = env.names.filter((name) => !(name in today) && !OF_A_SESSION.test(name));
  const { rnix: _rnix, ...before } = versions;
  const changed = Object.entries(before).filter(
    ([name, version]) => name in devices.versions && devices.versions[name] !== version,
  );
  const gone = Object.keys(before).filter((name) => !(name in devices.versions));
  return [
    ...notice("variables that it had and are not in this environment", missing),
    ...notice(
      "plugins that have changed since it ran",
      changed.map(([name]) => name),
    ),
    ...notice("plugins that it had and are not loaded now", gone),
    ...otherProvider(info, provider),
  ];
}

/** Its conversation goes to another server or model, or the context window differs. */
function otherProvider(
  { provider: name, provider_facts: was }: ProcInfo,
  choice: SpawnOpts["provider"],
): string[] {
  if (!was || !choice || choice.name !== name) return [];
  const is = providerFacts(choice);
  const differ = FACTS.flatMap(([fact, what]) =>
    was[fact] === is[fact] ? [] : [`${what} was ${was[fact] ?? "not set"} and is ${is[fact] ?? "not set"}`],
  );
  return differ.length === 0 ? [] : [`its provider ${name} is not what it was: ${differ.join("; ")}`];
}

const FACTS = [
  ["driver", "the driver"],
  ["base_url", "the address"],
  ["context_window", "the context window"],
  ["max_output", "the longest answer"],
] as const;

function notice(what: string, names: readonly string[]): string[] {
  if (names.length === 0) return [];
  const more = names.length > NAMED ? ` and ${names.length - NAMED} more` : "";
  return [`${what}: ${names.slice(0, NAMED).join(", ")}${more}`];
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}
