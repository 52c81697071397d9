/** Counts the resources that the kernel holds for processes. */

import type { Process } from "../process/process.ts";
import type { System } from "../tiers/system.ts";

/** The resources held for processes, by kind. Without processes all are 0; anything else is a leak. */
export function countResources({ holders, ...parts }: System) {
  const live = parts.table.all();
  const sum = (of: (proc: Process) => number): number => live.reduce((total, proc) => total + of(proc), 0);
  return {
    processes: live.length,
    tasks: parts.runner.tasks,
    contexts: parts.contexts.size,
    fds: sum((proc) => proc.fds.list().length),
    channels: sum((proc) => proc.watchers.size + proc.tracers.size),
    mounts: holders.mounts.size,
    messages: holders.messages.size,
    groups: holders.groups.size,
    signals: holders.signals.size,
    threads: holders.threads.size,
    coroutines: holders.coroutines.size,
    supervisors: parts.supervisors.size,
    agents: parts.agents.waiting,
    modelCalls: parts.gate.calls,
    budgets: parts.budget.live,
    reservations: parts.budget.reserved.reservations,
    asks: parts.asks.size,
    units: holders.units.size,
    programs: parts.children.list().length,
  };
}
