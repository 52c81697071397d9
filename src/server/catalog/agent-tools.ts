/** The tools of a project as they are listed, and what an agent may use of them. */

import type { Agent } from "../../config/agents/agents.ts";
import { MCP } from "../../config/mcp/mcp.ts";
import { kernelTools } from "../../kernel/devices/kernel-tools.ts";
import { TOOL_SEARCH } from "../../kernel/devices/tool-search.ts";
import { toolPrefix } from "../../kernel/mount/mount-tables.ts";
import { factsOf } from "../../kernel/permission/coverage.ts";
import { Permissions } from "../../kernel/permission/permissions.ts";
import { isChecked } from "../../kernel/tools/device-call.ts";
import {
  deferredAmong,
  isMessageTool,
  isPlanTool,
  listsMessageTools,
  namesMessageTools,
  offersPlan,
} from "../../kernel/tools/tool-catalog.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { ToolWire } from "../../protocol/methods.ts";
import { DeviceRegistry, type NamedTool, type Namespace } from "../../vfs/namespace.ts";

/** Whether an agent may use a tool, and when its model sees it. */
export type Marks = Pick<ToolWire, "allowed" | "shown">;

/** The kernel's own tools as they are listed; they are not opened here. */
export function kernelDevices(): DeviceRegistry {
  const devices = new DeviceRegistry();
  const unopened = (): never => {
    throw new SyscallError("INTERNAL", "A device of the catalog was opened.");
  };
  for (const [path, device] of Object.entries(
    kernelTools({
      lookup: unopened,
      tools: { deferred: unopened, ready: unopened, load: unopened },
      ipc: unopened,
      agents: unopened,
      wakes: unopened,
      worktrees: unopened,
    }),
  )) {
    devices.register({ path, device, plugin: "kernel", layer: "kernel", needs: [] });
  }
  return devices;
}

export function toolsOf(devices: Namespace, mark: (named: NamedTool) => Marks): ToolWire[] {
  return devices.tools().map((named) => {
    const { tool, entry } = named;
    return {
      name: tool.name,
      description: tool.description,
      path: entry.path,
      plugin: entry.plugin,
      layer: entry.layer,
      input: tool.input,
      checked: isChecked(tool),
      annotations: tool.annotations ?? {},
      ...mark(named),
    };
  });
}

export function rightsOf(agent: Agent, devices: Namespace, projectDir: string): Permissions {
  return Permissions.of({
    allow: agent.allowedTools,
    deny: agent.deny,
    ...factsOf(devices),
    // The tools of a server that did not start.
    expected: agent.mcp.map(({ name }) => toolPrefix({ type: MCP, name })),
    projectDir,
  });
}

/** What a run of the agent may use, and when its model sees it. */
export async function markFor(
  agent: Agent,
  rights: Permissions,
  devices: Namespace,
  limit: number,
): Promise<(named: NamedTool) => Marks> {
  const bodies = await Promise.all(agent.skills.map((skill) => skill.body()));
  const messaging = listsMessageTools(agent) || namesMessageTools(agent.instructions, ...bodies);
  const usable = devices.tools().filter(({ tool, entry }) => {
    if (!rights.showsTool(tool.name) || entry.path === TOOL_SEARCH.path) return false;
    if (isPlanTool(entry.path) && !offersPlan(agent, rights)) return false;
    return tool.name !== "Skill" || agent.deferredSkills.length > 0;
  });
  const visible = usable.filter(({ entry }) => messaging || !isMessageTool(entry.path));
  const searches = rights.showsTool(TOOL_SEARCH.tool.name);
  const deferred = searches ? deferredAmong(visible, limit, { shown: 0 }) : [];
  const shown = ({ tool, entry }: NamedTool): ToolWire["shown"] => {
    if (entry.path === TOOL_SEARCH.path) return deferred.length > 0 ? "start" : null;
    const has = (list: readonly NamedTool[]): boolean => list.some((one) => one.tool.name === tool.name);
    if (!has(usable)) return null;
    return has(visible) && !has(deferred) ? "start" : "later";
  };
  return (named) => ({ allowed: rights.showsTool(named.tool.name), shown: shown(named) });
}
