/** Registers the kernel's own devices. */

import type { DeviceRegistry } from "../../vfs/registry.ts";
import type { Conversations } from "../conversation/conversations.ts";
import type { IpcManager } from "../ipc-manager.ts";
import type { ChildAgents } from "../lifetime/child-agents.ts";
import type { ScheduledWakes } from "../lifetime/scheduled-wakes.ts";
import type { GateStatus } from "../llm/model-gate.ts";
import type { ProcessTable } from "../process/process-table.ts";
import { kernelTools } from "./kernel-tools.ts";
import { procDevice } from "./proc.ts";
import type { DeferredTools } from "./tool-search.ts";

interface OwnDevicesPorts {
  table: ProcessTable;
  contexts: Conversations;
  tools: DeferredTools;
  ipc: IpcManager;
  agents: ChildAgents;
  wakes: ScheduledWakes;
  modelQueues(): GateStatus[];
}

/** Adds the kernel's tools and `/proc`, which are in every namespace. */
export function registerOwnDevices(
  devices: DeviceRegistry,
  { table, contexts, tools, ipc, agents, wakes, modelQueues }: OwnDevicesPorts,
): void {
  const own = { plugin: "kernel", layer: "kernel", needs: [] } as const;
  const kernel = kernelTools({
    lookup: (uuid) => table.getByUuid(uuid),
    tools,
    ipc: () => ipc,
    agents: () => agents,
    wakes: () => wakes,
  });
  for (const [path, device] of Object.entries(kernel)) devices.register({ ...own, path, device });
  const proc = procDevice({
    info: (pid) => table.find(pid)?.info(),
    contextSummary: (pid) => contexts.summary(table.get(pid).ctxId),
    modelQueues,
  });
  devices.register({ ...own, path: "/proc", device: proc });
}
