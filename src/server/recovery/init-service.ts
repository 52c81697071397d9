/** Plans and runs the units of init.yaml. */

import { existsSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import { daemonEnvironment, userEnv } from "../../config/environment/environment.ts";
import type { Env, UserPaths } from "../../config/environment/paths.ts";
import {
  type CommandService,
  filesOfInit,
  type InitChild,
  type InitFile,
  type InitSupervisor,
  loadProjectInit,
  loadUserInit,
  type McpService,
  projectInitFile,
} from "../../config/init.ts";
import { mcpRequest } from "../../config/mcp/mcp.ts";
import { type Project, prepareProject } from "../../config/project/project.ts";
import { loadSettings, type Settings } from "../../config/settings/settings.ts";
import type { InitManager, InitPlan, InitUnitPlan } from "../../kernel/init-manager.ts";
import type { ChildSpec, SupervisorSpec } from "../../kernel/supervisor/spec.ts";
import type { DeviceLease, SpawnOpts } from "../../kernel/types.ts";
import { type Clock, withTimeout } from "../../lib/clock.ts";
import { messageOf } from "../../lib/error-detail.ts";
import type { Logger } from "../../lib/logger.ts";
import { limitsNamed } from "../../options/option-list.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { Diagnostic, InitUnitWire } from "../../protocol/methods.ts";
import { Namespace } from "../../vfs/namespace.ts";
import { planSpawn, type SpawnPorts } from "../plan/plan-spawn.ts";
import type { PlacedSpawn } from "../plan/request-defaults.ts";
import type { Run } from "../records/recorded-run.ts";

interface InitPorts {
  kernel: Pick<InitManager, "initBoot" | "initStatus">;
  user: UserPaths;
  /** The server's own environment. */
  env: Env;
  clock: Clock;
  /** Folders of the user's known projects. */
  projects(): string[];
  spawn: SpawnPorts;
  /** The crashed run of a unit, returned once. */
  before(place: string): Promise<Run | undefined>;
  logger: Logger;
}

/** Starts the units of init.yaml and makes runs wait for them. */
export interface InitService {
  /** Starts the user's units, then those of every known project. Rejects if the user's do not start. */
  start(): Promise<void>;
  /** Resolves when the user's units run, or immediately if there are none. */
  started(): Promise<void>;
  /** Its units are still starting, or could not start. */
  readonly starting: boolean;
  /**
   * Waits until a run may begin in this folder. Returns notices for the run. Fails with UNAVAILABLE or INVALID if the
   * init.yaml is wrong or does not start.
   */
  ready(where: { cwd: string; env: Env }): Promise<string[]>;
  status(): { units: InitUnitWire[]; problems: Diagnostic[] };
}

/** Less than a client waits for the answer to its spawn. */
const READY_MS = 25_000;

/**
 * Starts the user's init.yaml and those of trusted projects with the daemon. If the user's can't start, the daemon
 * ends. A project's concerns only its own runs: they fail until it has started, and each of them retries it. A started
 * one is read again at the daemon's next start.
 */
export class DaemonInit implements InitService {
  readonly #ports: InitPorts;
  readonly #env: Record<string, string>;
  #user: Promise<void> | undefined;
  #up = false;
  /** Started or starting projects, by folder. */
  readonly #projects = new Map<string, Promise<string[]>>();
  /** Errors of the others, by file. */
  readonly #problems = new Map<string, string>();

  constructor(ports: InitPorts) {
    this.#ports = ports;
    this.#env = daemonEnvironment(ports.env);
  }

  async start(): Promise<void> {
    this.#user ??= this.#bootUser();
    await this.#user;
    this.#up = true;
    // Not awaited: each run waits for its own project only.
    for (const dir of this.#ports.projects()) void this.#attempt(dir);
  }

  async started(): Promise<void> {
    await this.#user;
  }

  get starting(): boolean {
    return this.#user !== undefined && !this.#up;
  }

  async ready(where: { cwd: string; env: Env }): Promise<string[]> {
    if (!this.#user) return [];
    const project = this.#ports.spawn.workspaces.projectOf(where);
    let notices: string[] = [];
    const up = this.#user.then(async () => {
      notices = await this.#ofProject(project);
    });
    if (await withTimeout(this.#ports.clock, READY_MS, up)) return notices;
    const waits = this.status().units.find(({ state }) => state === "starting");
    throw new SyscallError(
      "UNAVAILABLE",
      `init.yaml is still starting${waits ? `: it waits for the ${waits.type} ${waits.name}` : ""}. Try again in a moment. \`rnix daemon status\` shows its progress.`,
    );
  }

  status(): { units: InitUnitWire[]; problems: Diagnostic[] } {
    const units = this.#ports.kernel
      .initStatus()
      .map(({ sinceMs, ...same }): InitUnitWire => ({ ...same, since_ms: sinceMs }));
    return { units, problems: [...this.#problems].map(([path, message]) => ({ path, message })) };
  }

  async #bootUser(): Promise<void> {
    const { configDir, home } = this.#ports.user;
    const init = await loadUserInit(configDir, home);
    if (!init) return;
    await this.#boot(init, null, await loadSettings({ configDir }));
  }

  /** At the daemon's start: a failure is logged, and shown to each run of the project. */
  async #attempt(dir: string): Promise<void> {
    const { workspaces } = this.#ports.spawn;
    try {
      if (!existsSync(dir)) return;
      for (const notice of await this.#ofProject(workspaces.projectOf({ cwd: dir, env: this.#env }))) {
        this.#ports.logger.warn(`init ${dir}`, notice);
      }
    } catch (thrown) {
      this.#ports.logger.warn(`init ${dir}`, messageOf(thrown));
    }
  }

  /** Starts the project's units unless they run. Returns notices about what a run there goes without. */
  async #ofProject(project: Project): Promise<string[]> {
    const file = projectInitFile(project);
    const known = this.#projects.get(project.dir);
    if (known) return await known;
    if (file === null || !existsSync(file)) return [];
    const boot = this.#bootProject(file, project);
    this.#projects.set(project.dir, boot);
    try {
      const left = await boot;
      // An untrusted one is checked again by the next run.
      if (left.length > 0) this.#projects.delete(project.dir);
      else this.#problems.delete(file);
      return left;
    } catch (thrown) {
      this.#projects.delete(project.dir);
      this.#problems.set(file, messageOf(thrown));
      throw thrown;
    }
  }

  /** Returns the untrusted parts that are left out, with the project files that their commands name. */
  async #bootProject(file: string, { dir }: Project): Promise<string[]> {
    const { sources } = await this.#ports.spawn.workspaces.at({ cwd: dir, env: this.#env });
    const { trust } = sources;
    const init = trust.allows({ files: [{ path: file }] }) ? await loadProjectInit(file) : null;
    if (!init || !trust.allows({ named: filesOfInit(init, dir) })) {
      this.#problems.set(file, "it is not trusted, so it is left out: `rnix trust` shows and trusts it");
      return [`not trusted, so left out: the services of ${file}. \`rnix trust\` shows and trusts it.`];
    }
    await this.#boot(init, dir, await loadSettings(sources));
    return [];
  }

  async #boot(
    init: Parameters<typeof initPlan>[0],
    project: string | null,
    settings: Awaited<ReturnType<typeof loadSettings>>,
  ): Promise<void> {
    const { kernel, user, spawn, before, logger } = this.#ports;
    const keys = (): Env => userEnv(user.configDir);
    const at = { project, home: user.home, settings, env: this.#env, keys, ports: spawn, before };
    const plan = initPlan(init, { ...at, logger });
    const began = this.#ports.clock.monotonic();
    try {
      await kernel.initBoot(plan);
    } catch (thrown) {
      if (!(thrown instanceof SyscallError)) throw thrown;
      throw new SyscallError(thrown.code, `${init.file}: ${thrown.message}`, { cause: thrown });
    }
    const ms = Math.round(this.#ports.clock.monotonic() - began);
    logger.info(
      "init",
      `${init.file} is up after ${ms} ms: ${plan.units.map(({ name }) => name).join(", ")}`,
    );
  }
}

/** The folder and environment of one init.yaml's units. */
interface InitContext {
  /** The project's folder; null: the file is the user's. */
  project: string | null;
  home: string;
  settings: Settings;
  /** The environment of a run without a caller. */
  env: Record<string, string>;
  /** The user's file with keys. */
  keys(): Env;
  ports: SpawnPorts;
  /** The crashed run of this unit, returned once. */
  before(place: string): Promise<Run | undefined>;
  logger: Logger;
}

/** The plan of an init.yaml for InitBoot. Everything that its processes are made of is read when they start. */
function initPlan(init: InitFile, at: InitContext): InitPlan {
  return {
    project: at.project,
    units: [
      ...init.services.map((service) =>
        service.type === "command" ? commandUnit(service, at) : mcpUnit(service, at),
      ),
      ...init.supervisors.map((supervisor) => supervisorUnit(supervisor, at)),
    ],
  };
}

/** A program has a supervisor of its own: its restarts count for it alone. */
function commandUnit({ name, type, required, config }: CommandService, at: InitContext): InitUnitPlan {
  const base = at.project ?? at.home;
  const cwd = config.cwd === undefined ? base : folder(config.cwd, base, at.home);
  const child: ChildSpec = {
    id: name,
    restart: config.restart,
    shutdown: config.shutdown,
    start: {
      kind: "command",
      plan: async () => ({
        request: { argv: config.argv, cwd, env: config.env },
        opts: await planSystem(base, at),
      }),
    },
  };
  const spec = specOf({ ...config, name, strategy: "one_for_one", children: [child] }, base, at);
  return { name, type, required, start: { kind: "supervisor", spec } };
}

function mcpUnit({ name, type, required, config, wrong }: McpService, at: InitContext): InitUnitPlan {
  const plan = async () => {
    const envs = [at.env, at.keys()];
    const { sources } = await at.ports.workspaces.at({ cwd: at.project ?? at.home, env: at.env });
    const request = mcpRequest(name, config, wrong, { timeouts: at.settings.values, envs, sources });
    return { request, opts: await planSystem(at.project ?? at.home, at, "with devices") };
  };
  const of = at.project === null ? "user" : "project";
  return { name, type, required, start: { kind: "mount", of, plan } };
}

function supervisorUnit(supervisor: InitSupervisor, at: InitContext): InitUnitPlan {
  const { name, required, children, project } = supervisor;
  const dir = project ?? at.project ?? at.home;
  const agents = children.map((child) => agentChild(child, `${name}/${child.id}`, dir, at));
  const spec = specOf({ ...supervisor, children: agents }, dir, at);
  return { name, type: "supervisor", required, start: { kind: "supervisor", spec } };
}

function agentChild(child: InitChild, name: string, dir: string, at: InitContext): ChildSpec {
  const { id, intent, restart, shutdown } = child;
  const request: PlacedSpawn = {
    intent,
    ...child.options,
    ...limitsNamed(
      (limit) => child.options[limit] ?? (child.options[limit] === null ? "unlimited" : undefined),
    ),
    cwd: dir,
    env: at.env,
    detach: true,
  };
  const supervised = `${at.project ?? "user"} ${name}`;
  const logNotices = (notices: readonly string[]): void => {
    for (const notice of notices) at.logger.warn(`init, ${name}`, notice);
  };
  const plan = async () => {
    const { agent, opts, notices } = await planSpawn(request, undefined, at.ports);
    logNotices(notices);
    return { intent, agent, opts: { ...opts, supervised, notices } };
  };
  const before = async () => {
    const run = await at.before(supervised);
    // If the unit's intent has changed, a new run begins instead.
    if (!run || run.info.intent !== intent) return undefined;
    const { agent, opts, notices } = await (await import("../plan/plan-resume.ts")).planResume(
      run,
      { env: at.env },
      at.ports,
    );
    logNotices(notices);
    return { uuid: run.info.uuid, agent, opts: { ...opts, notices } };
  };
  return { id, restart, shutdown, start: { kind: "agent", plan, before } };
}

function specOf(
  o: Pick<InitSupervisor, "name" | "strategy" | "maxRestarts" | "periodMs"> & { children: ChildSpec[] },
  dir: string,
  at: InitContext,
): SupervisorSpec {
  const { values } = at.settings;
  return {
    name: o.name,
    strategy: o.strategy,
    intensity: o.maxRestarts ?? values.supervisor_restarts,
    periodMs: o.periodMs ?? values.supervisor_window,
    children: o.children,
    opts: () => planSystem(dir, at),
  };
}

/**
 * What a process of the system's own is built with: it has no agent and no model, and opens nothing. A mount needs
 * the plugins that can make it.
 */
async function planSystem(
  dir: string,
  { ports, env }: InitContext,
  how: "with devices" | "bare" = "bare",
): Promise<SpawnOpts> {
  const { project, handle, sources, lease } = await ports.workspaces.at({ cwd: dir, env });
  const settings = await loadSettings(sources);
  prepareProject(project);
  await ports.remember(project);
  return {
    project: handle,
    devices: how === "bare" ? nothing() : await lease(settings),
    provider: null,
    cwd: dir,
    env,
    sandbox: "none",
    limits: settings.values,
  };
}

function nothing(): DeviceLease {
  return { namespace: new Namespace([]), versions: {}, release: () => undefined };
}

function folder(written: string, base: string, home: string): string {
  if (written === "~" || written.startsWith("~/")) return join(home, written.slice(1));
  return isAbsolute(written) ? written : join(base, written);
}
