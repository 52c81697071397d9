/** The list of the kernel's own tools. */

import { type Device, SyscallError } from "../../plugin/index.ts";
import type { ChildAgents } from "../agents/child-agents.ts";
import type { IpcManager } from "../ipc-manager.ts";
import type { ScheduledWakes } from "../lifetime/scheduled-wakes.ts";
import type { Process } from "../process/process.ts";
import type { Agents } from "../tiers/agents.ts";
import type { SkillInfo } from "../types.ts";
import { agentTool, takeDiff, teammateTool } from "./agents.ts";
import { readMessages, sendMessage, wake } from "./messages.ts";
import { plan } from "./plan.ts";
import { procDevice } from "./proc.ts";
import { type KernelCall, type KernelTool, toolDevice } from "./tool-device.ts";
import { type DeferredTools, toolSearch } from "./tool-search.ts";
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

const complete: KernelTool = {
  path: "/dev/kernel/complete",
  tool: {
    name: "Complete",
    description: "End the run with this result. Call it alone, when nothing is left to do.",
    input: {
      type: "object",
      properties: { result: { type: "string" } },
      required: ["result"],
      additionalProperties: false,
    },
    annotations: { idempotentHint: true },
  },
  run({ proc, input }) {
    proc.run.completion = String(input.result);
    return "The run is complete.";
  },
};

/** Loads a skill of the agent's list. It changes no rights. */
const skill: KernelTool = {
  path: "/dev/kernel/skill",
  tool: {
    name: "Skill",
    description: "Load a listed skill, or a `file` of it.",
    input: {
      type: "object",
      properties: { skill: { type: "string" }, file: { type: "string" } },
      required: ["skill"],
      additionalProperties: false,
    },
    annotations: { idempotentHint: true },
  },
  run: loadSkill,
};

async function loadSkill({ proc, input }: KernelCall): Promise<string> {
  const name = String(input.skill);
  const loaded = proc.conversation.skills.find((one) => one.name === name);
  if (typeof input.file === "string") return fileOf(proc, loaded ?? offered(proc, name), input.file);
  if (loaded) throw new SyscallError("INVALID", `The skill ${name} is already loaded.`);
  const found = offered(proc, name);
  const [body, files] = await Promise.all([found.body(), found.files?.() ?? []]);
  proc.conversation.skills.push(found);
  const base = found.dir === "" ? "" : `\nBase folder of this skill: ${found.dir}`;
  const missing = proc.permissions.notHeld(found.allowedTools ?? []);
  const note = missing.length === 0 ? "" : `\n[You may not use these tools of it: ${missing.join(", ")}.]`;
  return `# Skill: ${name}${base}${filesLine(files)}${note}\n\n${body.trim()}`;
}

/** A skill outside the project can't be read by Read: its files come by this tool. */
function filesLine(files: readonly string[]): string {
  return files.length === 0
    ? ""
    : `\nFiles of this skill (Skill with \`file\` reads one): ${files.join(", ")}`;
}

async function fileOf(proc: Process, skill: SkillInfo, file: string): Promise<string> {
  if (!skill.file) throw new SyscallError("NOT_FOUND", `The skill ${skill.name} has no files.`);
  return proc.secrets.hide(await skill.file(file));
}

function offered(proc: Process, name: string): SkillInfo {
  const { deferredSkills } = proc.spec.agent;
  const found = deferredSkills.find((candidate) => candidate.name === name);
  if (found) return found;
  throw new SyscallError(
    "NOT_FOUND",
    `There is no skill ${JSON.stringify(name)} to load. Loadable: ${deferredSkills.map((one) => one.name).join(", ") || "none"}.`,
  );
}

/** Adds the kernel's tools and `/proc`, which are in every namespace. */
export function registerOwnDevices(parts: Agents): void {
  const { agents, contexts, devices, gate, ipc, scheduledWakes, table } = parts;
  const own = { plugin: "kernel", layer: "kernel", needs: [] } as const;
  const kernel = kernelTools({
    lookup: (uuid) => table.getByUuid(uuid),
    tools: parts.deferredTools,
    ipc: () => ipc,
    agents: () => agents,
    wakes: () => scheduledWakes,
    worktrees: async () => new (await import("./worktree-changes.ts")).WorktreeChanges(parts),
  });
  for (const [path, device] of Object.entries(kernel)) devices.register({ ...own, path, device });
  const proc = procDevice({
    info: (pid) => table.find(pid)?.info(),
    contextSummary: (pid) => contexts.summary(table.get(pid).conversation.id),
    modelQueues: () => gate.status(),
  });
  devices.register({ ...own, path: "/proc", device: proc });
}
