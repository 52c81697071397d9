/** Registers the kernel's own devices. */

import type { Agents } from "../tiers/agents.ts";
import { kernelTools } from "./kernel-tools.ts";
import { procDevice } from "./proc.ts";

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
