/** The list of the kernel's own tools. */

import type { Device } from "../../plugin/index.ts";
import type { ChildAgents } from "../agents/child-agents.ts";
import type { IpcManager } from "../ipc-manager.ts";
import type { ScheduledWakes } from "../lifetime/scheduled-wakes.ts";
import type { Process } from "../process/process.ts";
import { agentTool } from "./agent.ts";
import { complete } from "./complete.ts";
import { readMessages, sendMessage } from "./messages.ts";
import { plan } from "./plan.ts";
import { skill } from "./skill.ts";
import { takeDiff } from "./take-diff.ts";
import { teammateTool } from "./teammate.ts";
import { toolDevice } from "./tool-device.ts";
import { type DeferredTools, toolSearch } from "./tool-search.ts";
import { wake } from "./wake.ts";
import { workflowTool } from "./workflow.ts";
import type { WorktreeChanges } from "./worktree-changes.ts";

interface KernelToolPorts {
  /** Returns the process that opened a file, by its UUID. */
  lookup(uuid: string): Process;
  tools: DeferredTools;
  ipc(): IpcManager;
  agents(): ChildAgents;
  wakes(): ScheduledWakes;
  /** Loaded with the first worktree. */
  worktrees(): Promise<WorktreeChanges>;
}

/** Returns their devices below /dev/kernel, by path. The ports are used only in calls. */
export function kernelTools(ports: KernelToolPorts): Record<string, Device> {
  const { lookup, tools, ipc, agents, wakes, worktrees } = ports;
  const all = [
    agentTool(agents, worktrees),
    plan,
    skill,
    complete,
    toolSearch(tools),
    sendMessage(ipc),
    readMessages(ipc),
    wake(wakes),
    workflowTool(agents),
    teammateTool(agents),
    takeDiff(worktrees),
  ];
  return Object.fromEntries(all.map((tool) => [tool.path, toolDevice(tool, lookup)]));
}
