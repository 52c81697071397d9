/** Plans a call without a model. */

import { userEnv } from "../../config/environment/environment.ts";
import type { Env } from "../../config/environment/paths.ts";
import { MCP, mcpMounts, mcpServerNames } from "../../config/mcp/mcp.ts";
import { loadProviders } from "../../config/providers/providers.ts";
import { loadSettings } from "../../config/settings/settings.ts";
import type { DirectCallOpts } from "../../kernel/lifetime/direct-calls.ts";
import { mountPath, toolPrefix } from "../../kernel/mount/mount-tables.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { SpawnPorts } from "./plan-spawn.ts";
import { runEnvironment } from "./run-environment.ts";
import type { Workspace } from "./workspace.ts";

/** Where a call is made, and which tool it needs. */
export interface CallPlace {
  /** Absolute. */
  cwd: string;
  env: Env;
  /** Trusts all parts of the project, for this call only. */
  trust?: boolean;
  tool?: string;
  /** A path that is called; one below `/mnt/mcp/NAME` starts that server. */
  path?: string;
  /** An MCP server that is started for this call alone. */
  server?: string;
}

export interface CallPlan {
  opts: DirectCallOpts;
  /** The path, as it is mounted for the call. */
  path?: string;
  /** Parts that were left out, such as plugins that are not trusted. */
  notices: string[];
}

/** Plans a call of PID 0: its project, trust, settings, devices, and the MCP server that it needs. */
export async function planCall(
  { cwd, env, trust, tool = "", path, server }: CallPlace,
  ports: Pick<SpawnPorts, "workspaces" | "keys" | "services">,
): Promise<CallPlan> {
  const workspace = await ports.workspaces.at({ cwd, env, trustAll: trust });
  const { project, handle, sources } = workspace;
  const settings = await loadSettings(sources);
  const providers = await loadProviders(sources);
  const fileEnv = userEnv(sources.configDir);
  const services = ports.services(project, MCP);
  const below = path === undefined ? null : await mountOf(path, workspace, services);
  const names =
    server !== undefined ? [server] : below ? [below.name] : await serversOf(tool, workspace, services);
  const mcp = names.map((name) => ({
    name,
    required: true,
    wrong: (message: string) => new SyscallError("INVALID", message),
  }));
  const { values: timeouts } = settings;
  const context = { sources, envs: [env, fileEnv], timeouts, services };
  const { mounts } = await mcpMounts({ mcp, mcpAll: false }, context);
  const devices = await workspace.lease(settings);
  const { fetched } = ports.keys;
  return {
    notices: devices.notices,
    path: below?.path ?? path,
    opts: {
      project: handle,
      devices,
      cwd,
      ...runEnvironment(env, { providers, devices, userEnv: fileEnv, fetched }),
      mounts: server === undefined ? mounts : mounts.map((mount) => ({ ...mount, shared: false })),
      limits: settings.values,
    },
  };
}

/** The MCP server that the tool's name begins with, unless it runs for the project already. */
async function serversOf(
  tool: string,
  { sources }: Workspace,
  services: readonly string[],
): Promise<string[]> {
  if (!tool.startsWith(`${MCP}__`)) return [];
  const servers = await mcpServerNames(sources);
  return servers.filter(
    (name) => tool.startsWith(toolPrefix({ type: MCP, name })) && !services.includes(name),
  );
}

/** The server of a path `/mnt/mcp/NAME/…` or `/mnt/mcp/PID-NAME/…`, and the path at which PID 0 mounts it. */
async function mountOf(
  path: string,
  { sources }: Workspace,
  services: readonly string[],
): Promise<{ name: string; path: string } | null> {
  const [, named = "", rest = ""] = /^\/mnt\/mcp\/([^/]+)(.*)$/s.exec(path) ?? [];
  if (named === "" || services.includes(named)) return null;
  const servers = await mcpServerNames(sources);
  // A name that no file has gets the message about unknown servers.
  const name = servers.includes(named) ? named : named.replace(/^\d+-/, "");
  return { name, path: mountPath({ type: MCP, name }, 0) + rest };
}
