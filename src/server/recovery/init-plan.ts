/** Plans the units of one init.yaml. */

import { isAbsolute, join } from "node:path";
import type { Env } from "../../config/environment/paths.ts";
import type { CommandService, InitChild, InitFile, InitSupervisor, McpService } from "../../config/init.ts";
import { mcpRequest } from "../../config/mcp/mcp.ts";
import { prepareProject } from "../../config/project/project.ts";
import { loadSettings, type Settings } from "../../config/settings/settings.ts";
import type { InitPlan, InitUnitPlan } from "../../kernel/init-manager.ts";
import type { ChildSpec, SupervisorSpec } from "../../kernel/supervisor/spec.ts";
import type { DeviceLease, SpawnOpts } from "../../kernel/types.ts";
import type { Logger } from "../../lib/logger.ts";
import { limitsNamed } from "../../options/option-list.ts";
import { Namespace } from "../../vfs/namespace.ts";
import { planSpawn, type SpawnPorts } from "../plan/plan-spawn.ts";
import type { PlacedSpawn } from "../plan/request-defaults.ts";
import type { Run } from "../records/recorded-run.ts";

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
export function initPlan(init: InitFile, at: InitContext): InitPlan {
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

/** For processes without agent and model. A mount needs the plugins that can make it. */
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
