/** Counts the resources that the kernel holds for processes. */

import type { Children } from "../../os/children.ts";
import type { Asks } from "../asks/asks.ts";
import type { TreeBudget } from "../budget/budget.ts";
import type { Conversations } from "../conversation/conversations.ts";
import type { ModelGate } from "../llm/model-gate.ts";
import type { ProcessTable } from "../process/process-table.ts";
import type { SupervisorManager } from "../supervisor-manager.ts";
import type { ChildAgents } from "./child-agents.ts";
import type { ProcessRunner } from "./process-runner.ts";
import type { HolderName, Holders } from "./reap.ts";

interface ResourceOwners {
  table: ProcessTable;
  runner: ProcessRunner;
  contexts: Conversations;
  children: Children;
  holders: Holders;
  supervisors: SupervisorManager;
  agents: ChildAgents;
  gate: ModelGate;
  budget: TreeBudget;
  asks: Asks;
}

/** The resources held for processes, by kind. Without processes all are 0; anything else is a leak. */
export type ResourceCounts = Record<HolderName | OtherHeld, number>;

type OtherHeld =
  | "processes"
  | "tasks"
  | "contexts"
  | "fds"
  | "channels"
  | "supervisors"
  | "agents"
  | "modelCalls"
  | "budgets"
  | "reservations"
  | "asks"
  | "programs";

/** Counts the resources that the parts of the kernel hold for processes. */
export function countResources(parts: ResourceOwners): ResourceCounts {
  const { table, runner, contexts, children, holders, supervisors, agents, gate, budget, asks } = parts;
  const live = table.all();
  const sum = (of: (proc: (typeof live)[number]) => number): number =>
    live.reduce((total, proc) => total + of(proc), 0);
  return {
    processes: live.length,
    tasks: runner.tasks,
    contexts: contexts.size,
    fds: sum((proc) => proc.fds.list().length),
    channels: sum((proc) => proc.watchers.size + proc.tracers.size),
    mounts: holders.mounts.size,
    messages: holders.messages.size,
    groups: holders.groups.size,
    signals: holders.signals.size,
    threads: holders.threads.size,
    coroutines: holders.coroutines.size,
    supervisors: supervisors.size,
    agents: agents.waiting,
    modelCalls: gate.calls,
    budgets: budget.live,
    reservations: budget.reserved.reservations,
    asks: asks.size,
    programs: children.list().length,
  };
}
