/** Gathers what the plans of runs need. */

import type { Project } from "../../config/project/project.ts";
import type { ChildEffects } from "../../kernel/lifetime/child-effects.ts";
import type { SpawnPorts } from "../plan/plan-spawn.ts";
import type { KernelPort } from "./kernel-port.ts";
import type { Machine } from "./machine.ts";
import type { OpenedProjects } from "./projects.ts";
import type { Records } from "./records.ts";

/** Opens the planner: what `planSpawn`, `planResume` and `planChild` need of the other parts. */
export function openPlanner(
  { clock, children }: Machine,
  { projects }: Records,
  { workspaces, keys }: OpenedProjects,
  port: KernelPort,
): SpawnPorts {
  return {
    workspaces,
    clock,
    keys,
    parent(uuid) {
      const { processes } = port.kernel;
      const pid = processes.findPid(uuid);
      if (pid === undefined) return undefined;
      const requireEffects = (effects: ChildEffects): void => processes.requireEffects(pid, effects);
      return { pid, requireEffects, ...processes.inherited(pid) };
    },
    async models(choice, devices, place) {
      const { LIST_WAIT_MS, serviceModels } = await import("../catalog/probe-provider.ts");
      return serviceModels(choice, devices, place, { clock, children, waitMs: LIST_WAIT_MS });
    },
    services: (project: Project, type: string) => port.kernel.mounts.services(project, type),
    remember: (project: Project) => projects.remember(project),
  };
}
