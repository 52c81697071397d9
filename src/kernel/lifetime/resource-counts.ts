/** Counts the resources that the kernel holds for processes. */

import type { Children } from "../../os/children.ts";
import type { Asks } from "../asks/asks.ts";
import type { TreeBudget } from "../budget/budget.ts";
import type { Conversations } from "../conversation/conversations.ts";
import type { ModelGate } from "../llm/model-gate.ts";
import type { Process } from "../process/process.ts";
import type { ProcessTable } from "../process/process-table.ts";
import type { SupervisorManager } from "../supervisor-manager.ts";
import type { ChildAgents } from "./child-agents.ts";
import type { ProcessRunner } from "./process-runner.ts";
import type { Holders } from "./reap.ts";

interface ResourceOwners {
  table: ProcessTable;
  runner: ProcessRunner;
  contexts: Conversations;
  programs: Children;
  holders: Holders;
  supervisors: SupervisorManager;
  agents: ChildAgents;
  gate: ModelGate;
  budget: TreeBudget;
  asks: Asks;
}

/** The resources held for processes, by kind. Without processes all are 0; anything else is a leak. */
export function countResources({ holders, ...parts }: ResourceOwners) {
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
    programs: parts.programs.list().length,
  };
}
