/** Plans a spawn: resolves the agent, settings, rights, plugins and provider before a process exists. */

import { existsSync } from "node:fs";
import { stat } from "node:fs/promises";
import { join, resolve } from "node:path";
import { type Agent, loadAgent, requireChecks, withAdded } from "../../config/agents/agents.ts";
import { toolEnvironment, userEnv } from "../../config/environment/environment.ts";
import type { Env } from "../../config/environment/paths.ts";
import { headerKeys, mcpMounts } from "../../config/mcp/mcp.ts";
import { ownDataDir, type Project, prepareProject } from "../../config/project/project.ts";
import { loadProjectDoc } from "../../config/project/project-doc.ts";
import {
  type KeyCommands,
  type ProviderRequest,
  resolveProvider,
} from "../../config/providers/provider-choice.ts";
import { driverNames, keyNames } from "../../config/providers/provider-needs.ts";
import { loadProviders, type Providers } from "../../config/providers/providers.ts";
import { loadSettings, modesOf, type Settings } from "../../config/settings/settings.ts";
import type { Worktrees } from "../../kernel/files/worktrees.ts";
import type { ChildEffects } from "../../kernel/lifetime/child-effects.ts";
import { Secrets } from "../../kernel/process/secrets.ts";
import type {
  ChildPlan,
  ChildRequest,
  InheritedOpts,
  PID,
  ProviderChoice,
  RunBase,
  SpawnOpts,
} from "../../kernel/types.ts";
import { LastEqual, lazy } from "../../lib/caches.ts";
import type { Clock } from "../../lib/clock.ts";
import { TAINT_POLICIES } from "../../lib/taint.ts";
import { processOptions } from "../../options/option-list.ts";
import type { HostLease } from "../../plugin/host/lease.ts";
import { type ListedModel, type OpenContext, SyscallError } from "../../plugin/index.ts";
import { isLimited, withinParent } from "../../proxy/host-rules.ts";
import { sandboxText } from "../../sandbox/policy.ts";
import type { SandboxProbe } from "../../sandbox/sandbox.ts";
import type { Namespace } from "../../vfs/namespace.ts";
import type { Attachments } from "./attachments.ts";
import { type GivenRules, narrowedServers, type PlacedSpawn, parentUuid } from "./request-defaults.ts";
import { boundSecretsOf, runEnvironment } from "./run-environment.ts";
import {
  readOnlyNotice,
  refuseRequest,
  requireCommands,
  requireValidSchema,
  untrustedNotice,
  withheldOf,
} from "./spawn-notices.ts";
import type { Workspace, Workspaces } from "./workspace.ts";

const DEFAULT_AGENT = "default";

const UNCONFINED =
  "unconfined: the model's program works with tools of its own, which the rights of this run do not bind";

/** The folder for the records of a child, if a variable names another than that of its project or parent. */
function chosenRecords({ dir, dataDir }: SpawnOpts["project"], parent: SpawnOpts["project"]): string[] {
  return dataDir === parent.dataDir || dataDir === ownDataDir(dir) ? [] : [join(dataDir, "steps")];
}

interface Parent extends InheritedOpts {
  pid: PID;
  /** Fails with PERMISSION for an effect that the parent may not cause through a child. */
  requireEffects(effects: ChildEffects): void;
}

export interface SpawnPorts {
  workspaces: Workspaces;
  clock: Clock;
  /** `fetched`: the keys that the commands have printed. */
  keys: KeyCommands & { readonly fetched: readonly string[] };
  /** The live process with this UUID, with what its child inherits. */
  parent(uuid: string): Parent | undefined;
  /** The names of this type's mounts that all runs of the project share. */
  services(project: Project, type: string): string[];
  /** The models that the provider's service lists. Fails as a model call does. */
  models(
    choice: ProviderChoice,
    devices: Namespace,
    place: Pick<OpenContext, "project" | "cwd" | "env">,
  ): Promise<ListedModel[]>;
  sandbox: {
    /** What sandbox this machine can make. */
    probe(env: Env): Promise<SandboxProbe>;
    isFirstNotice(): boolean;
  };
  /** Adds the project to the list of known projects. Returns whether the project is new. */
  remember(project: Project): Promise<boolean>;
  /** Loaded with the first worktree. */
  worktrees(): Promise<Pick<Worktrees, "make" | "remove">>;
  /** Why this machine can't limit the network of a run; null: it can. */
  networkProblem(): Promise<string | null>;
}

/** Its notices: parts that are not trusted, skills without their tools. */
export type SpawnPlan = ChildPlan;

/** What a resumed run, or the parent of a child, brings to the plan. */
interface KnownSettings extends Pick<ProviderRequest, "byFlag" | "fallback" | "withoutShell"> {
  agentOf?: typeof loadAgent;
  /** Still in memory, with its key. */
  provider?: ProviderChoice;
  /** The rules of the original spawn; absent: the request's. */
  rules?: GivenRules;
  /** Its base, and the folder whose instructions count there; absent: the request's. */
  base?: RunBase & { cwd: string };
  /** The names of the variables that the resumed run had. */
  envHad?: readonly string[];
}

const sandboxes = lazy(() => import("./choose-sandbox.ts"));
const scripts = lazy(() => import("../../config/workflows/workflows.ts"));

const agents = new LastEqual<Agent>();

/** What a plan rests on: known before plugins are loaded, and allowed to the caller. */
interface Grounds {
  request: PlacedSpawn;
  parent: Parent | undefined;
  known: KnownSettings;
  workspace: Workspace;
  settings: Settings;
  agent: Agent;
  /** The user's file with keys. */
  fileEnv: Env;
  ports: SpawnPorts;
  /** What sandbox the machine can make, if that is asked already. */
  probing: Promise<SandboxProbe> | undefined;
  /** Shown at the start of the run. Each part of the plan adds its own, in the order of the plan. */
  notices: string[];
}

/**
 * Plans a spawn, in this order: project, trust, settings, agent and its skills, attachments, plugins, provider. If it
 * throws, nothing was spent and nothing is left behind. INVALID and NOT_FOUND are exit 64, UNAVAILABLE is 69. The
 * notices name what an untrusted project goes without.
 */
export async function planSpawn(
  request: PlacedSpawn,
  unit: string | undefined,
  ports: SpawnPorts,
  known: KnownSettings = {},
): Promise<SpawnPlan> {
  const grounds = await groundsOf(request, unit, ports, known);
  const { parent, settings, agent, notices } = grounds;
  const { project, handle, base, docFolder, sources, lease } = grounds.workspace;
  const attached = await attachmentsOf(request, ports);
  const docNotices: string[] = [];
  const doc = loadProjectDoc(sources.project, docFolder, docNotices);
  const servers = await serversOf(grounds);
  const devices = await lease(settings);
  try {
    const providers = await loadProviders(sources, driverNames({ devices: devices.namespace }));
    const withheld = [...settings.withheld, ...providers.withheld, ...withheldOf(agent, request)];
    notices.push(
      ...untrustedNotice([...withheld, ...agent.untrusted, ...servers.untrusted], base !== null),
      ...[...agent.notices, ...servers.notices, ...docNotices, ...devices.notices],
    );
    const provider = await chooseProvider(grounds, providers, devices);
    const network = await networkOf(grounds);
    const sandbox = await sandboxOf(grounds, provider);
    const environment = await environmentOf(grounds, providers, devices);
    requireCommands([...agent.checks, ...(request.check ?? [])], environment.env);
    prepareProject(project);
    if ((await ports.remember(project)) && doc?.unread !== undefined)
      notices.push(`${doc.unread} is not read, because ${doc.file} is`);
    return {
      agent,
      notices,
      opts: {
        project: handle,
        devices,
        provider,
        base: base === null ? undefined : { ref: base.ref, commit: base.commit },
        cwd: request.cwd,
        // The skills of the base name files there.
        folders: base === null ? attached.folders : [...new Set([...attached.folders, base.dir])],
        ...environment,
        secrets: [...environment.secrets, ...headerKeys(servers.mounts)],
        envGiven: request.env_given,
        projectDoc: doc?.text,
        input: attached.text && new Secrets({ keys: environment.secrets }).hide(attached.text),
        inputOrigin: request.input_origin,
        images: attached.images,
        parentPid: parent?.pid,
        mounts: servers.mounts,
        deny: agent.deny.length > 0 ? [...agent.deny, ...(request.deny ?? [])] : request.deny,
        askMode: askModeOf(grounds),
        unasked: request.unasked,
        approved: parent === undefined && request.attended ? request.check : undefined,
        alwaysAllowed: settings.allowAlways.map(({ rule }) => rule),
        attended: request.attended,
        outputs: request.outputs,
        chat: request.chat,
        detached: request.detach,
        effort: request.effort ?? agent.effort ?? parent?.effort,
        script: request.workflow && (await scripts()).scriptOf(request.workflow, sources),
        limits: settings.values,
        ...processOptions(request),
        ...sandbox,
        ...network,
        ...taintOf(grounds),
      },
    };
  } catch (error) {
    devices.release();
    throw error;
  }
}

/** Finds the parent, the project and the agent, and refuses what can't be granted. */
async function groundsOf(
  request: PlacedSpawn,
  unit: string | undefined,
  ports: SpawnPorts,
  known: KnownSettings,
): Promise<Grounds> {
  const parent = parentOf(request, unit, ports);
  refuseRequest(request, { isInside: parent !== undefined });
  const { cwd, env, trust: trustAll } = request;
  // A program of a run can't choose another base.
  const base = known.base ?? parent?.base ?? (request.base === undefined ? undefined : { ref: request.base });
  const workspace = await ports.workspaces.at({ cwd, env, trustAll, base });
  // Before anything of that project is read, or made in it. A worktree has what its parent's project has.
  if (unit !== undefined && workspace.handle.home === undefined)
    parent?.requireEffects({ folders: [workspace.handle.dir] });
  if (unit !== undefined)
    parent?.requireEffects({ written: chosenRecords(workspace.handle, parent.project) });
  const { sources } = workspace;
  const settings = await loadSettings(sources);
  const named = await (known.agentOf ?? loadAgent)(request.agent ?? DEFAULT_AGENT, sources);
  const agent = agents.of(await withAdded(named, request, sources));
  requireChecks(agent);
  parent?.requireEffects({
    commands: [...agent.checks, ...(request.check ?? [])],
    files: await filesOf(request.add ?? []),
    variables: request.env_given,
  });
  if (request.output_schema) requireValidSchema(request.output_schema);
  const notices = [...(request.notices ?? []), ...(workspace.base?.notices ?? [])];
  if (parent === undefined) notices.push(...readOnlyNotice(workspace.project));
  const fileEnv = userEnv(sources.configDir);
  const probing = (await sandboxes()).probeEarly({ request, agent, settings, parent, ports });
  return { request, parent, known, workspace, settings, agent, fileEnv, ports, probing, notices };
}

/** The MCP servers of the agent that the rules of the run leave it. */
async function serversOf({ request, known, workspace, settings, agent, fileEnv, ports }: Grounds) {
  const { sources, base, project } = workspace;
  const { mounts, notices, untrusted } = await mcpMounts(agent, {
    sources,
    envs: [request.env, fileEnv],
    timeouts: settings.values,
    // Services are those of the work tree.
    services: base === null ? ports.services(project, "mcp") : [],
  });
  const narrowed = narrowedServers(known.rules ?? request, mounts);
  return { mounts: narrowed.mounts, notices: [...notices, ...narrowed.notices], untrusted };
}

/** The provider of the run. A key command that fails is detected before anything is spent. */
async function chooseProvider(
  { request, parent, known, workspace, settings, agent, fileEnv, ports, notices }: Grounds,
  providers: Providers,
  devices: HostLease,
): Promise<ProviderChoice> {
  const { name, provider, model, claudeModel, fallback } = agent;
  const env = parent ? fromInside(parent, request.env) : request.env;
  const choice = await resolveProvider({
    providers,
    devices: devices.namespace,
    env,
    listed: (one) =>
      ports.models(one, devices.namespace, {
        project: workspace.handle,
        cwd: request.cwd,
        env: toolEnvironment(env, keyNames({ providers, devices: devices.namespace })),
      }),
    userEnv: fileEnv,
    flags: { provider: request.provider, model: request.model },
    agent: { name, provider, model, claudeModel, fallback },
    parent: known.provider ?? parent?.provider ?? undefined,
    byFlag: known.byFlag,
    fallback: known.fallback,
    withoutShell: known.withoutShell,
    keys: ports.keys,
    clock: ports.clock,
    contextWindow: settings.sources.has("context_window") ? settings.values.context_window : undefined,
    warn: (text) => void notices.push(text),
  });
  if (choice.plays && choice.model !== parent?.provider?.model)
    parent?.requireEffects({ files: scriptOf(choice.model, request.cwd) });
  if (choice.renewSecret) await choice.secret();
  return choice;
}

/** Where this machine can't limit a network, the run says so; one that requires a sandbox does not begin. */
async function networkOf(grounds: Grounds): Promise<Pick<SpawnOpts, "network">> {
  const { request, known, settings, agent, parent, ports } = grounds;
  // A resumed run has the recorded one, which the settings don't change.
  const isNew = known.rules === undefined;
  const usual = isNew ? settings.words.network.split(",") : undefined;
  const asked = request.network ?? withinParent(usual, agent.network);
  if (!isLimited(asked) || parent !== undefined) return {};
  const problem = await ports.networkProblem();
  if (problem === null) return isNew ? { network: asked } : {};
  const { wantedSandbox } = await sandboxes();
  if (wantedSandbox(request, agent, settings).mode === "required") {
    throw new SyscallError("UNAVAILABLE", `The network of this run can't be limited: ${problem}.`);
  }
  grounds.notices.push(`network not limited: ${problem}`);
  return { network: ["on"] };
}

/** The sandbox of the run. The program of a model may work outside of any. */
async function sandboxOf(
  grounds: Grounds,
  { unconfined, fallbacks = [] }: ProviderChoice,
): Promise<Pick<SpawnOpts, "sandbox" | "confinement">> {
  const isUnconfined = unconfined || fallbacks.some((fallback) => fallback.unconfined);
  if (isUnconfined) grounds.notices.push(UNCONFINED);
  const confinement = await (await sandboxes()).sandboxOf(grounds, isUnconfined === true);
  return {
    sandbox: isUnconfined ? "unconfined" : confinement ? sandboxText(confinement) : "none",
    confinement,
  };
}

/** A resumed run has the policy of its record, and a child follows its parent's. */
function taintOf({ request, parent, known, settings }: Grounds): Pick<SpawnOpts, "taint"> {
  if (known.rules !== undefined || parent !== undefined) return {};
  const usual = TAINT_POLICIES.find((policy) => policy === settings.words.taint && policy !== "auto");
  const taint = request.taint ?? usual;
  return taint === undefined ? {} : { taint };
}

/** With a base, only the variables of a pipeline that a run needs, unless it inherits or had others. */
async function environmentOf(
  { request, parent, known: { envHad }, workspace, settings, fileEnv, ports, notices }: Grounds,
  providers: Providers,
  devices: HostLease,
): Promise<Pick<SpawnOpts, "env" | "pluginKeys" | "boundSecrets"> & { secrets: string[] }> {
  const boundSecrets = parent
    ? parent.boundSecrets
    : boundSecretsOf(settings.own.secrets ?? {}, [request.env, fileEnv], notices);
  const given = runEnvironment(request.env, {
    providers,
    devices,
    userEnv: fileEnv,
    fetched: [...ports.keys.fetched, ...(boundSecrets ?? []).map(({ value }) => value)],
    // A run must not choose the keys of its child's plugins.
    pluginEnv: parent && (parent.pluginKeys ?? {}),
  });
  if (workspace.base === null || parent?.base !== undefined) return { ...given, boundSecrets };
  const passed = [...(request.env_given ?? []), ...(request.env_passed ?? [])];
  const { keptNotice, pipelineEnvironment } = await import(
    "../../config/environment/pipeline-environment.ts"
  );
  const filtered = pipelineEnvironment(given.env, envHad ?? passed);
  if (envHad === undefined) notices.push(...keptNotice(filtered.kept));
  const secrets = [...given.secrets, ...filtered.secrets];
  return { ...given, env: filtered.env, secrets, boundSecrets };
}

/**
 * Plans a child that an agent spawns: in its folder, with its environment, and with its provider unless the child's
 * agent names another. A named model belongs to the parent's provider.
 */
export async function planChild(
  uuid: string,
  { intent, agent, model: wanted, input, options, workflow, runs, worktree, stays }: ChildRequest,
  childUuid: string,
  ports: SpawnPorts,
): Promise<SpawnPlan> {
  const parent = ports.parent(uuid);
  if (!parent) throw new SyscallError("NOT_FOUND", `The parent process ${uuid} has ended.`);
  const { env, envGiven, attended, detached, outputs, verdicts } = parent;
  const worktrees = worktree ? await ports.worktrees() : undefined;
  const cwd = (await worktrees?.make(childUuid, parent.project, parent.cwd)) ?? parent.cwd;
  // A provider that plays a recording has no other models.
  const model = parent.provider?.plays ? undefined : wanted;
  const provider = model === undefined ? undefined : parent.provider?.name;
  // The shell's provider variables are not the parent's choice, which may come from a flag.
  const own = { ...env, RNIX_PROVIDER: "", RNIX_MODEL: "" };
  const request = { ...options, workflow: runs, intent, input, agent, provider, model, cwd, env: own };
  const planned = planSpawn(request, uuid, ports, { byFlag: parent.provider?.byFlag });
  const plan = await planned.catch(async (thrown) => {
    await worktrees?.remove(childUuid);
    throw thrown;
  });
  const folders = worktree ? plan.opts.folders : parent.folders;
  const inherited = { env, envGiven, folders, attended, detached, outputs, verdicts };
  return { ...plan, opts: { ...plan.opts, ...inherited, workflow, worktree, ...(stays && { chat: true }) } };
}

/**
 * What a person is asked for without a rule. The setting counts only where a person is at the terminal; a child has the
 * mode of its parent.
 */
function askModeOf({ request, settings, parent }: Grounds): SpawnOpts["askMode"] {
  const { ask_mode, attended, chat, by_hand } = request;
  if (ask_mode !== undefined) return ask_mode;
  if (parent !== undefined || !attended) return "off";
  return modesOf(settings.words.ask)[chat || by_hand ? "byHand" : "spawned"];
}

/** A spawn from a process's shell always creates a child of that process. */
function parentOf(request: PlacedSpawn, unit: string | undefined, ports: SpawnPorts): Parent | undefined {
  const uuid = parentUuid(request, unit);
  if (uuid === undefined) return undefined;
  const parent = ports.parent(uuid);
  if (parent) return parent;
  const message = `The parent process ${uuid} is not alive in this daemon. A run of --no-daemon can spawn no runs from its shell.`;
  throw new SyscallError("NOT_FOUND", message);
}

/**
 * The environment in which a child's provider is found: the parent's. With its own environment, a run without a key
 * could send the user's key to any server.
 */
function fromInside(parent: Parent, { RNIX_PROVIDER, RNIX_MODEL }: Env): Env {
  return { ...parent.env, RNIX_PROVIDER, RNIX_MODEL };
}

/** The folders among them are checked against the parent's folders. */
async function filesOf(paths: readonly string[]): Promise<string[]> {
  // Reading one that is not there reports the error.
  const found = await Promise.all(paths.map((path) => stat(path).catch(() => null)));
  return paths.filter((_, i) => !found[i]?.isDirectory());
}

/** The file from which a replay model is read, unless it is a run. */
export function scriptOf(model: string, cwd: string): string[] {
  const file = resolve(cwd, model);
  return existsSync(file) ? [file] : [];
}

/** Most runs have none, and what reads them is loaded then only. */
async function attachmentsOf(
  { add = [], input }: Pick<PlacedSpawn, "add" | "input">,
  { clock }: SpawnPorts,
): Promise<Attachments> {
  if (add.length === 0 && input === undefined) return { images: [], folders: [] };
  const { readAttachments } = await import("./attachments.ts");
  return readAttachments(clock, add, input);
}
