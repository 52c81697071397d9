/** Starts the MCP servers of an agent, to list their tools. */

import type { Agent } from "../../config/agents/agents.ts";
import { toolEnvironment, userEnv } from "../../config/environment/environment.ts";
import type { Env } from "../../config/environment/paths.ts";
import { MCP, mcpMounts } from "../../config/mcp/mcp.ts";
import type { Settings } from "../../config/settings/settings.ts";
import { mountPath, mountRules } from "../../kernel/mount/mount-tables.ts";
import type { MountManager } from "../../kernel/mount-manager.ts";
import type { Permissions } from "../../kernel/permission/permissions.ts";
import type { DeviceLease, MountRequest } from "../../kernel/types.ts";
import { expected } from "../../lib/error-detail.ts";
import { DeviceRegistry } from "../../vfs/namespace.ts";
import type { Workspace } from "../plan/workspace.ts";

interface AgentMountsPorts {
  mounts: Pick<MountManager, "look" | "services">;
  workspace: Workspace;
  settings: Settings;
  /** The environment of the requesting command. */
  env: Env;
  lease: DeviceLease;
}

/** Starts the agent's trusted MCP servers, reads their tools, and ends those that no run uses. */
export async function agentMounts(
  agent: Agent,
  { mounts, workspace, settings, env, lease }: AgentMountsPorts,
) {
  const { project, handle, sources } = workspace;
  const planned = await mcpMounts(
    // Missing servers are listed instead of failing the request.
    { mcp: agent.mcp.map((wish) => ({ ...wish, required: false })), mcpAll: agent.mcpAll },
    {
      sources,
      envs: [env, userEnv(sources.configDir)],
      timeouts: settings.values,
      services: mounts.services(project, MCP),
    },
  );
  const waiting = planned.untrusted.map((what) => `${what} is not trusted: see \`rnix trust\``);
  const diagnostics = [...planned.notices, ...waiting].map((message) => ({ path: MCP, message }));
  const where = { project: handle, env: toolEnvironment(env), devices: lease };
  const devices = new DeviceRegistry();
  const placed: MountRequest[] = [];
  const place = async (request: MountRequest): Promise<void> => {
    try {
      for (const entry of await mounts.look(request, where)) devices.register(entry);
      placed.push(request);
    } catch (error) {
      diagnostics.push({ path: `${request.type} ${request.name}`, message: expected(error).message });
    }
  };
  await Promise.all(planned.mounts.map(place));
  return {
    devices,
    diagnostics,
    /** Adds the rights that come with the mounts. */
    granted: (rights: Permissions): Permissions =>
      placed.reduce((all, request) => {
        const path = mountPath(request);
        return all.withMount(path, mountRules(request, path));
      }, rights),
  };
}
