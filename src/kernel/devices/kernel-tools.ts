/** The kernel's own devices: its tools, and /proc. */

import { type Device, type FileStat, SyscallError, type VFSFile } from "../../plugin/index.ts";
import type { ChildAgents } from "../agents/child-agents.ts";
import type { IpcManager } from "../ipc-manager.ts";
import type { ScheduledWakes } from "../lifetime/scheduled-wakes.ts";
import type { GateStatus } from "../llm/model-gate.ts";
import type { Process } from "../process/process.ts";
import type { Agents } from "../tiers/agents.ts";
import type { ProcInfo, SkillInfo } from "../types.ts";
import {
  agentTool,
  readMessages,
  sendMessage,
  takeDiff,
  teammateTool,
  wake,
  workflowTool,
} from "./agents.ts";
import { plan } from "./plan.ts";
import { inputOf, type KernelCall, type KernelTool, toolDevice } from "./tool-device.ts";
import { type DeferredTools, toolSearch } from "./tool-search.ts";
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
    input: inputOf(["result"], { result: { type: "string" } }),
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
    input: inputOf(["skill"], { skill: { type: "string" }, file: { type: "string" } }),
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
  // A skill outside the project can't be read by Read: its files come by this tool.
  const list =
    files.length > 0 ? `\nFiles of this skill (Skill with \`file\` reads one): ${files.join(", ")}` : "";
  const missing = proc.permissions.notHeld(found.allowedTools ?? []);
  const note = missing.length === 0 ? "" : `\n[You may not use these tools of it: ${missing.join(", ")}.]`;
  return `# Skill: ${name}${base}${list}${note}\n\n${body.trim()}`;
}

async function fileOf(proc: Process, skill: SkillInfo, file: string): Promise<string> {
  if (!skill.file) throw new SyscallError("NOT_FOUND", `The skill ${skill.name} has no files.`);
  return proc.secrets.hide(await skill.file(file));
}

function offered(proc: Process, name: string): SkillInfo {
  const { deferredSkills } = proc.spec.agent;
  const found = deferredSkills.find((candidate) => candidate.name === name);
  if (found) return found;
  const message = `There is no skill ${JSON.stringify(name)} to load. Loadable: ${deferredSkills.map((one) => one.name).join(", ") || "none"}.`;
  throw new SyscallError("NOT_FOUND", message);
}

/** Adds the kernel's tools and `/proc`, which are in every namespace. */
export function registerOwnDevices(parts: Agents): void {
  const { agents, contexts, devices, gate, ipc, table } = parts;
  const own = { plugin: "kernel", layer: "kernel", needs: [] } as const;
  const kernel = kernelTools({
    lookup: (uuid) => table.getByUuid(uuid),
    tools: parts.deferredTools,
    ipc,
    agents,
    wakes: parts.scheduledWakes,
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

interface ProcSource {
  info(pid: number): ProcInfo | undefined;
  contextSummary(pid: number): string;
  modelQueues(): GateStatus[];
}

/**
 * /proc/{pid}/status|intent|context, with "self" for the process that reads, and /proc/llm, the queues and limits
 * of the model providers: snapshots made at open, read-only.
 */
export function procDevice(source: ProcSource): Device {
  return {
    match: "prefix",
    factory(subpath, _flags, { process, project }) {
      if (subpath === "/llm") return snapshotFile("llm", JSON.stringify({ queues: source.modelQueues() }));
      const match = /^\/(\d+|self)\/(status|intent|context)$/.exec(subpath);
      const info = match ? source.info(match[1] === "self" ? process.pid : Number(match[1])) : undefined;
      // A run sees the processes of its project, in a sandbox those below it; a user's own command sees all.
      const reader = source.info(process.pid);
      let above = info;
      while (reader && reader.sandbox !== "none" && above && above.pid !== reader.pid)
        above = above.ppid === 0 ? undefined : source.info(above.ppid);
      if (!match || !info || !above || !(process.operator || info.project === project.dir)) {
        const message = `/proc${subpath} does not exist. Expected /proc/{pid}/status, intent or context of a live process ("self" for your own), or /proc/llm.`;
        throw new SyscallError("NOT_FOUND", message);
      }
      const file = match[2] ?? "";
      return snapshotFile(subpath.slice(1), contentOf(file, info, source));
    },
  };
}

function contentOf(file: string, info: ProcInfo, source: ProcSource): string {
  if (file === "intent") return info.intent;
  if (file === "context") return source.contextSummary(info.pid);
  const { pid, ppid, state, intent, skills, tokens_used, elapsed_ms, allowed_devices } = info;
  return JSON.stringify({ pid, ppid, state, intent, skills, tokens_used, elapsed_ms, allowed_devices });
}

/** A read-only file whose text is fixed at open. Reads return it piece by piece. */
function snapshotFile(name: string, text: string): VFSFile {
  let position = 0;
  return {
    async write(): Promise<void> {
      throw new SyscallError("PERMISSION", `/proc/${name} is a snapshot and cannot be written.`);
    },
    async read(max: number): Promise<string> {
      const piece = text.slice(position, position + max);
      position += piece.length;
      return piece;
    },
    async close(): Promise<void> {
      position = text.length;
    },
    async stat(): Promise<FileStat> {
      return { name, size: Buffer.byteLength(text), isDevice: false, devicePath: "/proc" };
    },
  };
}
