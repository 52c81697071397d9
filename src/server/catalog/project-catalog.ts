/** Lists the plugins, tools, agents, skills and providers of a project. */

import { type Agent, loadAgent, loadAgents } from "../../config/agents/agents.ts";
import { toolEnvironment, userEnv } from "../../config/environment/environment.ts";
import type { Env } from "../../config/environment/paths.ts";
import type { McpServerList } from "../../config/mcp/mcp.ts";
import { loadProjectDoc } from "../../config/project/project-doc.ts";
import {
  type KeyCommands,
  type ProviderRequest,
  resolveProvider,
} from "../../config/providers/provider-choice.ts";
import { driverNames, keyNames } from "../../config/providers/provider-needs.ts";
import { loadProviders, withEntry } from "../../config/providers/providers.ts";
import { loadSettings, type Settings } from "../../config/settings/settings.ts";
import { loadSkills, type Skill } from "../../config/skills/skills.ts";
import type { MountManager } from "../../kernel/mount-manager.ts";
import type { ProviderChoice } from "../../kernel/types.ts";
import type { Clock } from "../../lib/clock.ts";
import { limitsNamed } from "../../options/option-list.ts";
import type { Children } from "../../os/children.ts";
import type { HostLease, PluginCommand } from "../../plugin/host/lease.ts";
import type { PluginReport } from "../../plugin/host/report.ts";
import type {
  AgentWire,
  Diagnostic,
  PromptPartWire,
  ProviderWire,
  SkillWire,
  ToolWire,
  TriedModelWire,
} from "../../protocol/methods.ts";
import type { NamedTool, Namespace } from "../../vfs/namespace.ts";
import type { Workspace, Workspaces } from "../plan/workspace.ts";
import { agentMounts } from "./agent-mounts.ts";
import { kernelDevices, type Marks, markFor, promptSizes, rightsOf, toolsOf } from "./agent-tools.ts";
import { listModels, type ModelsAnswer, type ModelsAsked } from "./list-models.ts";
import { listProviders } from "./list-providers.ts";
import { LIST_WAIT_MS, probe, serviceModels } from "./probe-provider.ts";

/** Identifies a project: a command's folder and environment. */
interface ProjectRef {
  /** Absolute. */
  cwd: string;
  env?: Record<string, string>;
}

interface CatalogPorts {
  workspaces: Workspaces;
  clock: Clock;
  /** The server's own environment, for requests without one. */
  env: Env;
  keys: KeyCommands;
  /** For a model that is a program, when it is asked whether it answers. */
  children: Pick<Children, "exec" | "endOwner">;
  mounts: Pick<MountManager, "look" | "services">;
  /** What plugins would add to the prompt of a run in this project. */
  promptParts(project: ProjectRef): Promise<{ plugin: string; title: string; text: string }[]>;
}

export type Catalog = Pick<ProjectCatalog, keyof ProjectCatalog>;

/** Everything is read for each request, so that an edit takes effect immediately. */
export class ProjectCatalog {
  readonly #ports: CatalogPorts;

  constructor(ports: CatalogPorts) {
    this.#ports = ports;
  }

  /** Returns the project's folder, as processes have it. */
  projectDir(cwd: string): string {
    return this.#ports.workspaces.projectOf({ cwd, env: this.#ports.env }).dir;
  }

  async plugins(project: ProjectRef): Promise<{ plugins: PluginReport[] }> {
    const workspace = await this.#at(project);
    return { plugins: await workspace.pluginReports(await loadSettings(workspace.sources)) };
  }

  async mcpServers({ cwd, env = {} }: ProjectRef): Promise<McpServerList> {
    const { mcpServers } = await import("../offline-commands.ts");
    return mcpServers({ cwd, env: { ...this.#ports.env, ...env } });
  }

  /** The commands of the plugins that a run would have. `notices`: plugins that are left out. */
  async commands(project: ProjectRef): Promise<{ commands: PluginCommand[]; notices: string[] }> {
    return this.#withDevices(await this.#at(project), async (_devices, { commands, notices }) => ({
      commands,
      notices,
    }));
  }

  /** With `agent`, marks the tools that it may use, and adds those of its MCP servers, which are started for it. */
  async tools(
    project: ProjectRef,
    agentName?: string,
  ): Promise<{ tools: ToolWire[]; prompt: PromptPartWire[] | null; diagnostics: Diagnostic[] }> {
    const workspace = await this.#at(project);
    return this.#withDevices(workspace, async (devices, lease, settings) => {
      const all = devices.over(kernelDevices());
      if (agentName === undefined) {
        const tools = toolsOf(all, () => ({ allowed: true, shown: null }));
        return { tools, prompt: null, diagnostics: [] };
      }
      const agent = await loadAgent(agentName, workspace.sources);
      const { mounts, env } = this.#ports;
      const ports = { mounts, workspace, settings, env: project.env ?? env, lease };
      const mounted = await agentMounts(agent, ports);
      const seen = all.with(mounted.devices);
      const rights = mounted.granted(rightsOf(agent, seen, workspace.project.dir));
      const mark = await markFor(agent, rights, seen, settings.values.tools_shown);
      const prompt = await this.#promptOf(agent, project, workspace, seen, mark);
      return { tools: toolsOf(seen, mark), prompt, diagnostics: mounted.diagnostics };
    });
  }

  /** What the first request of a run of the agent holds, without an intent. */
  async #promptOf(
    agent: Agent,
    project: ProjectRef,
    { project: { dir }, sources }: Workspace,
    devices: Namespace,
    mark: (named: NamedTool) => Marks,
  ): Promise<PromptPartWire[]> {
    const tools = devices.tools().map((named) => ({ ...named, shown: mark(named).shown }));
    const usable = tools.filter(({ shown }) => shown !== null).map(({ entry }) => entry.plugin);
    const { clock, promptParts } = this.#ports;
    const [skills, parts] = await Promise.all([
      Promise.all(
        agent.skills.map(async ({ name, dir: folder, body }) => ({ name, dir: folder, body: await body() })),
      ),
      promptParts(project),
    ]);
    const doc = loadProjectDoc(sources.project, project.cwd) ?? undefined;
    const head = {
      instructions: agent.instructions,
      skills,
      deferredSkills: agent.deferredSkills,
      projectDoc: doc?.text,
      parts: parts.filter(({ plugin }) => usable.includes(plugin)),
      checks: agent.checks,
      environment: {
        project: dir,
        cwd: project.cwd,
        date: new Date(clock.now()).toISOString().slice(0, 10),
        platform: `${process.platform} ${process.arch}`,
      },
    };
    return promptSizes(head, doc?.file, tools);
  }

  async agents(project: ProjectRef): Promise<{ agents: AgentWire[]; diagnostics: Diagnostic[] }> {
    const { sources } = await this.#at(project);
    const { agents, problems } = await loadAgents(sources);
    return { agents: agents.map(agentWire), diagnostics: problems };
  }

  async skills(project: ProjectRef): Promise<{ skills: SkillWire[]; diagnostics: Diagnostic[] }> {
    const { sources } = await this.#at(project);
    const { skills, problems, waiting } = await loadSkills(sources);
    const waits = waiting.map(
      ({ name, path, description }): SkillWire => ({
        name,
        description,
        source: path,
        allowed_tools: null,
        waits: true,
      }),
    );
    return { skills: [...skills.map(skillWire), ...waits], diagnostics: problems };
  }

  /** With `ask`, probes each usable provider. `lists`: a server of the user's own is asked for its default model. */
  async providers(
    project: ProjectRef,
    { ask, lists }: { ask: boolean; lists: boolean },
  ): Promise<{ providers: ProviderWire[]; diagnostics: Diagnostic[] }> {
    const diagnostics: Diagnostic[] = [];
    const warn = (message: string): void => void diagnostics.push({ path: "", message });
    return this.#withProviders(project, { warn }, async (request, devices, workspace) => {
      const place = placeOf(workspace, request);
      const one = (choice: ProviderChoice) => probe(choice, devices, place, this.#ports);
      const { clock } = this.#ports;
      const listed = lists ? this.#lister(devices, place, LIST_WAIT_MS) : undefined;
      const providers = await listProviders({ ...request, listed }, { probe: ask ? one : null, clock, warn });
      return { providers, diagnostics };
    });
  }

  /**
   * The models of the usable providers, or of the one that is named, usable or not. Services with a key are asked for
   * their lists, for at most `waitMs`; 0 asks none. `entry`: of the named provider, as if the user's file had it.
   */
  async models(project: ProjectRef, asked: ModelsAsked): Promise<ModelsAnswer> {
    return this.#withProviders(project, asked, async (request, devices, workspace) => {
      const list = this.#lister(devices, placeOf(workspace, request), asked.waitMs);
      return listModels({ ...request, listed: asked.waitMs > 0 ? list : undefined }, asked, list);
    });
  }

  #lister(devices: Namespace, place: ReturnType<typeof placeOf>, waitMs: number) {
    const lists = new Map<string, ReturnType<typeof serviceModels>>();
    return (choice: ProviderChoice): ReturnType<typeof serviceModels> => {
      const list =
        lists.get(choice.gateKey) ?? serviceModels(choice, devices, place, { ...this.#ports, waitMs });
      lists.set(choice.gateKey, list);
      return list;
    };
  }

  /** Sends one word to a model and returns what came. Fails as a run of it would. */
  async tryModel(
    project: ProjectRef,
    asked: Required<Pick<ModelsAsked, "provider">> & Pick<ModelsAsked, "entry"> & { model: string },
  ): Promise<TriedModelWire> {
    return this.#withProviders(project, asked, async (request, devices, workspace) => {
      const { provider, model } = asked;
      const choice = await resolveProvider({ ...request, flags: { provider, model } });
      const started = this.#ports.clock.monotonic();
      const { text, usage, cost } = await probe(choice, devices, placeOf(workspace, request), this.#ports);
      const ms = Math.round(this.#ports.clock.monotonic() - started);
      const { input_tokens, output_tokens } = usage;
      return { model: choice.model, text, tokens: input_tokens + output_tokens, cost_usd: cost, ms };
    });
  }

  async #withProviders<T>(
    project: ProjectRef,
    o: { provider?: string; entry?: Readonly<Record<string, unknown>>; warn?(message: string): void },
    use: (request: ProviderRequest, devices: Namespace, workspace: Workspace) => Promise<T>,
  ): Promise<T> {
    const { provider, entry, warn = () => undefined } = o;
    const workspace = await this.#at(project);
    const { sources } = workspace;
    return this.#withDevices(workspace, async (devices) => {
      const known = await loadProviders(sources, driverNames({ devices }));
      const providers =
        provider === undefined || entry === undefined ? known : withEntry(known, provider, entry, sources);
      const request: ProviderRequest = {
        providers,
        devices,
        env: project.env ?? this.#ports.env,
        userEnv: userEnv(sources.configDir),
        keys: this.#ports.keys,
        clock: this.#ports.clock,
        warn,
      };
      return use(request, devices, workspace);
    });
  }

  #at({ cwd, env }: ProjectRef): Promise<Workspace> {
    return this.#ports.workspaces.at({ cwd, env: env ?? this.#ports.env });
  }

  async #withDevices<T>(
    workspace: Workspace,
    use: (devices: Namespace, lease: HostLease, settings: Settings) => Promise<T>,
  ): Promise<T> {
    const settings = await loadSettings(workspace.sources);
    const lease = await workspace.lease(settings);
    try {
      return await use(lease.namespace, lease, settings);
    } finally {
      lease.release();
    }
  }
}

/** Where PID 0 works when it asks a model. */
function placeOf({ handle: { id, dir, trusted } }: Workspace, request: ProviderRequest) {
  return { project: { id, dir, trusted }, cwd: dir, env: toolEnvironment(request.env, keyNames(request)) };
}

function agentWire(agent: Agent): AgentWire {
  const { name, description, source, skills, deferredSkills, allowedTools, checks, notices } = agent;
  return {
    name,
    description,
    source,
    skills: skills.map((skill) => skill.name),
    deferred_skills: deferredSkills.map((skill) => skill.name),
    allowed_tools: allowedTools,
    ...limitsNamed((limit) => agent[limit] ?? null),
    checks,
    notices,
  };
}

function skillWire({ name, description, source, allowedTools }: Skill): SkillWire {
  return { name, description, source, allowed_tools: allowedTools, waits: false };
}
