/** The tools of a project as they are listed, and what an agent may use of them. */

import { basename } from "node:path";
import type { Agent } from "../../config/agents/agents.ts";
import { MCP } from "../../config/mcp/mcp.ts";
import { estimateTokens } from "../../kernel/budget/tokens.ts";
import { headParts, type PromptHead } from "../../kernel/conversation/prompt-head.ts";
import { kernelTools } from "../../kernel/devices/kernel-tools.ts";
import { searchTool, TOOL_SEARCH } from "../../kernel/devices/tool-search.ts";
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
  toolForModel,
} from "../../kernel/tools/tool-catalog.ts";
import { SyscallError, type ToolDef } from "../../plugin/index.ts";
import type { PromptPartWire, ToolWire } from "../../protocol/methods.ts";
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

/** In the order of the request: the head, then the tools. `doc`: the path of the project's document. */
export function promptSizes(
  head: PromptHead,
  doc: string | undefined,
  tools: readonly (NamedTool & Pick<ToolWire, "shown">)[],
): PromptPartWire[] {
  const parts = headParts(head).map(({ name, text }) =>
    sizeOf(name === "project document" && doc !== undefined ? basename(doc) : name, text),
  );
  const shown = tools.filter((one) => one.shown === "start");
  const texts = shown.map(({ tool, entry }) =>
    JSON.stringify(toolForModel(entry.path === TOOL_SEARCH.path ? search(tools) : tool)),
  );
  return [...parts, sizeOf(`${shown.length} tools`, texts.join(","))];
}

/** ToolSearch with the names that it can load. */
function search(tools: readonly (NamedTool & Pick<ToolWire, "shown">)[]): ToolDef {
  const later = tools.filter(({ tool, entry, shown }) => shown === "later" && isDeferred(tool, entry.path));
  return searchTool(later.map(({ tool }) => tool.name));
}

function isDeferred(tool: ToolDef, path: string): boolean {
  return tool.defer === true || path.startsWith("/mnt/");
}

function sizeOf(part: string, text: string): PromptPartWire {
  return { part, bytes: Buffer.byteLength(text), tokens: estimateTokens(text) };
}
