/** Plans a run of a job as a spawn without a caller; a plan that is released again is the pre-flight. */

import { daemonEnvironment, userEnv } from "../../config/environment.ts";
import type { Env, UserPaths } from "../../config/paths.ts";
import type { StoredJob } from "../../cron/job.ts";
import type { SpawnOpts } from "../../kernel/types.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { JobRef } from "../../store/runs/schema.ts";
import { planSpawn, type SpawnPlan, type SpawnPorts } from "../plan/plan-spawn.ts";
import { placedRequest } from "./job-request.ts";

export interface JobPlanPorts {
  user: UserPaths;
  /** The server's own environment. */
  env: Env;
  spawn: SpawnPorts;
  /** Waits for the project's init.yaml; returns notices. */
  ready(where: { cwd: string; env: Env }): Promise<string[]>;
}

/** Plans one run. Fails as a spawn does, and with INVALID for a job of another folder. */
export async function planJob(job: StoredJob, ports: JobPlanPorts, ref?: JobRef): Promise<SpawnPlan> {
  const plain = daemonEnvironment(ports.env);
  const { request, byFlag } = placedRequest(job, { plain, user: userEnv(ports.user.configDir) });
  const left = await ports.ready(request);
  const { agent, opts, notices } = await planSpawn(request, undefined, ports.spawn, { byFlag });
  if (opts.project.dir !== job.project) {
    opts.devices.release();
    throw new SyscallError(
      "INVALID",
      `The job was made in ${job.project}, and its folder ${request.cwd} belongs to ${opts.project.dir} now. If it has moved, \`rnix cron enable ${job.name}\` takes it over.`,
    );
  }
  return { agent, notices: [...left, ...notices], opts: { ...limited(opts, job), job: ref } };
}

/** A job made by a run never has more than that run had. */
function limited(opts: SpawnOpts, { rights }: StoredJob): SpawnOpts {
  if (!rights) return opts;
  return {
    ...opts,
    within: rights.permissions,
    maxSteps: smaller(opts.maxSteps, rights.max_steps),
    contextBudget: smaller(opts.contextBudget, rights.context_budget),
    maxCost: smaller(opts.maxCost, rights.max_cost),
    timeoutMs: smaller(opts.timeoutMs, rights.timeout_ms),
  };
}

/** The smaller of two limits. undefined: the default of the agent and the settings, which `above` bounds too. */
export function smaller(own: number | null | undefined, above: number | null): number | null | undefined {
  if (above === null) return own;
  return own === undefined || own === null ? above : Math.min(own, above);
}

/** Every reason why the job can't run now; empty: it can. */
export async function preflightJob(job: StoredJob, ports: JobPlanPorts): Promise<string[]> {
  try {
    const { opts } = await planJob(job, ports);
    opts.devices.release();
    return [];
  } catch (thrown) {
    if (!(thrown instanceof SyscallError) || thrown.code === "INTERNAL") throw thrown;
    return [thrown.message];
  }
}
