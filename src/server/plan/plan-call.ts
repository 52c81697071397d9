/** Plans a call without a model. */

import { namedKeys, providerKeys, toolEnvironment, userEnv } from "../../config/environment.ts";
import { MCP, mcpMounts, mcpServerNames } from "../../config/mcp.ts";
import type { Env } from "../../config/paths.ts";
import type { Project } from "../../config/project.ts";
import { keyNames } from "../../config/provider-needs.ts";
import { loadProviders } from "../../config/providers.ts";
import { loadSettings, type Settings } from "../../config/settings.ts";
import type { DirectCallOpts } from "../../kernel/lifetime/direct-calls.ts";
import { toolPrefix } from "../../kernel/mount/mount-point.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { SpawnPorts } from "./plan-spawn.ts";
import type { Workspace } from "./workspace.ts";

/** Where a call is made, and which tool it needs. */
export interface CallPlace {
  /** Absolute. */
  cwd: string;
  env: Env;
  /** Trusts all parts of the project, for this call only. */
  trust?: boolean;
  /** Absent: a path is called. */
  tool?: string;
}

export interface CallPlan {
  opts: DirectCallOpts;
  /** Parts that were left out, such as plugins that are not trusted. */
  notices: string[];
}

/** Plans a call of PID 0: its project, trust, settings, devices, and the MCP server that it needs. */
export async function planCall(
  { cwd, env, trust, tool }: CallPlace,
  ports: Pick<SpawnPorts, "workspaces" | "keys" | "services">,
): Promise<CallPlan> {
  const workspace = await ports.workspaces.at({ cwd, env, trustAll: trust });
  const { project, sources, trusted } = workspace;
  const settings = await loadSettings(sources);
  const providers = await loadProviders(sources);
  const fileEnv = userEnv(sources.configDir);
  const services = ports.services(project, MCP);
  const mounts =
    tool === undefined ? [] : await serverOf(tool, workspace, settings, [env, fileEnv], services);
  const devices = await workspace.lease(settings);
  const own = devices.secrets ?? [];
  const names = [...keyNames({ providers, devices: devices.namespace }), ...own];
  const secrets = providerKeys([env, fileEnv], names);
  return {
    notices: devices.notices,
    opts: {
      project: handleOf(project, trusted),
      devices,
      cwd,
      env: toolEnvironment(env, names, [...secrets, ...ports.keys.fetched]),
      secrets,
      pluginKeys: namedKeys(own, [env, fileEnv]),
      mounts,
      limits: settings.values,
    },
  };
}

/** The mount of the MCP server that the tool's name begins with, unless it runs for the project already. */
async function serverOf(
  tool: string,
  { sources }: Workspace,
  settings: Settings,
  envs: readonly Env[],
  services: readonly string[],
): Promise<DirectCallOpts["mounts"]> {
  if (!tool.startsWith(`${MCP}__`)) return [];
  const servers = await mcpServerNames(sources);
  const references = servers
    .filter((name) => tool.startsWith(toolPrefix({ type: MCP, name })) && !services.includes(name))
    .map((name) => ({
      name,
      required: true,
      wrong: (message: string) => new SyscallError("INVALID", message),
    }));
  const asked = { mcp: references, mcpAll: false };
  const { mounts } = await mcpMounts(asked, { sources, envs, timeouts: settings.values, services });
  return mounts;
}

function handleOf({ id, dir, dataDir }: Project, trusted: boolean): DirectCallOpts["project"] {
  return { id, dir, dataDir, trusted };
}
