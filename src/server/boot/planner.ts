/** Gathers what the plans of runs need. */

import { tmpdir } from "node:os";
import type { Project } from "../../config/project/project.ts";
import type { ChildEffects } from "../../kernel/lifetime/child-effects.ts";
import { runShortProgram } from "../../os/short-program.ts";
import type { SandboxProbe } from "../../sandbox/probe.ts";
import type { SpawnPorts } from "../plan/plan-spawn.ts";
import type { KernelPort } from "./kernel-port.ts";
import type { Machine } from "./machine.ts";
import type { OpenedProjects } from "./projects.ts";
import type { Records } from "./records.ts";

const PROBE_MS = 10_000;

/** What works is remembered for its PATH; what does not may have been installed meanwhile. */
function sandboxPorts(): SpawnPorts["sandbox"] {
  let found: { probe: SandboxProbe; path: string | undefined } | undefined;
  let isShown = false;
  return {
    async probe(env) {
      if (found?.probe.works && found.path === env.PATH) return found.probe;
      const { probeSandbox } = await import("../../sandbox/probe.ts");
      found = { probe: await probeSandbox(env), path: env.PATH };
      return found.probe;
    },
    isFirstNotice() {
      const isFirst = !isShown;
      isShown = true;
      return isFirst;
    },
  };
}

/** Opens the planner: what `planSpawn`, `planResume` and `planChild` need of the other parts. */
export function openPlanner(
  { clock, children }: Machine,
  { projects, worktrees }: Records,
  { workspaces, keys }: OpenedProjects,
  port: KernelPort,
): SpawnPorts {
  /** Found out once, by a program in a namespace: the presence of a tool decides nothing. */
  let problem: Promise<string | null> | undefined;
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
    worktrees,
    sandbox: sandboxPorts(),
    services: (project: Project, type: string) => port.kernel.mounts.services(project, type),
    remember: (project: Project) => projects.remember(project),
    networkProblem() {
      problem ??= import("../../proxy/network-door.ts").then((door) =>
        door.networkProblem(async (argv) => {
          const program = { argv, cwd: "/", env: {}, timeoutMs: PROBE_MS, maxChars: 300 };
          const place = { children, clock, spillDir: tmpdir() };
          const { code, stderr } = await runShortProgram(place, "network-probe", program);
          return { code, output: stderr };
        }),
      );
      return problem;
    },
  };
}
