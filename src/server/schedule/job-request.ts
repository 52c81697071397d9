/** The spawn request of a job: completed when the job is made, and placed for each run. */

import { resolve } from "node:path";
import { z } from "zod";
import type { StoredJob } from "../../cron/job.ts";
import type { JobCaller } from "../../cron/ports.ts";
import { issueText } from "../../lib/issue-text.ts";
import { type JobRequest, SyscallError } from "../../plugin/index.ts";
import { SpawnRequest } from "../../protocol/run.ts";
import type { PlacedSpawn } from "../plan/request-defaults.ts";

/** Fields of a spawn request that a job decides itself, or that need a client. */
const NOT_OF_JOBS = [
  "intent",
  "parent_uuid",
  "outputs",
  "quiet",
  "attended",
  "chat",
  "by_hand",
  "unasked",
  "detach",
  "notices",
  "env_given",
];

const Extra = z.lazy(() =>
  z.object({
    env: z.record(z.string(), z.string()).optional(),
    env_names: z.array(z.string()).optional(),
    /** The user named the provider: then the agent's fallbacks do not count. */
    provider_by_flag: z.boolean().optional(),
  }),
);

/** A job's part of the request, checked. Fails with INVALID, naming each field. */
function fieldsOf({ run, intent }: Pick<JobRequest, "run" | "intent">): SpawnRequest & z.infer<typeof Extra> {
  const wrong = NOT_OF_JOBS.filter((name) => run[name] !== undefined);
  if (wrong.length > 0) throw new SyscallError("INVALID", `run: a job can't set ${wrong.join(", ")}.`);
  const { env_names, provider_by_flag, ...rest } = run;
  const known = new Set(Object.keys(SpawnRequest().shape));
  const unknown = Object.keys(rest).filter((name) => !known.has(name));
  if (unknown.length > 0) throw new SyscallError("INVALID", `run: unknown field ${unknown.join(", ")}.`);
  const parsed = SpawnRequest().safeParse({ ...rest, intent });
  const extra = Extra.safeParse({ env: rest.env, env_names, provider_by_flag });
  if (parsed.success && extra.success) return { ...parsed.data, ...extra.data };
  const issues = [parsed.error, extra.error].flatMap((error) => (error ? [issueText(error, "run")] : []));
  throw new SyscallError("INVALID", `run: ${issues.join("; ")}`);
}

/** Fills in what the caller's place decides: the folder, and the provider that its shell names. */
export function completeRequest(request: JobRequest, { cwd, env, run }: JobCaller): JobRequest {
  const fields = fieldsOf(request);
  if (run && fields.trust)
    throw new SyscallError("PERMISSION", "run: a run can't trust the project for its job.");
  const usual = usualModel(fields.agent, env, run);
  const provider = fields.provider ?? usual.provider;
  // As for a spawn: a model that belongs to a provider counts for this one only.
  const counts = usual.provider === undefined || provider === usual.provider;
  const model = fields.model ?? (counts ? usual.model : undefined);
  return {
    ...request,
    run: {
      ...request.run,
      cwd: fields.cwd === undefined ? cwd : resolve(cwd, fields.cwd),
      ...(provider !== undefined && { provider }),
      ...(model !== undefined && { model }),
      provider_by_flag: fields.provider_by_flag ?? fields.provider !== undefined,
    },
  };
}

/** The shell's; of a run's job the run's, so that it costs no more than expected. Another agent may name its own. */
function usualModel(
  agent: string | undefined,
  { RNIX_PROVIDER, RNIX_MODEL }: JobCaller["env"],
  run: JobCaller["run"],
): { provider?: string; model?: string } {
  if (!run) return { provider: RNIX_PROVIDER || undefined, model: RNIX_MODEL || undefined };
  return agent === undefined || agent === run.agent ? (run.model ?? {}) : {};
}

/** The request of one run. `plain`: the environment of a run without a caller; `user`: the user's file. */
export function placedRequest(
  job: StoredJob,
  { plain, user }: { plain: Record<string, string>; user: Record<string, string> },
): { request: PlacedSpawn; byFlag: boolean } {
  const { env = {}, env_names = [], provider_by_flag = false, cwd, ...fields } = fieldsOf(job);
  const named: Record<string, string> = {};
  for (const name of env_names) {
    const value = user[name] ?? plain[name];
    if (value === undefined) {
      const message = `The variable ${name} is not set. Write ${name}=… into ~/.config/rnix/env (chmod 600).`;
      throw new SyscallError("UNAVAILABLE", message);
    }
    named[name] = value;
  }
  return {
    byFlag: provider_by_flag,
    request: {
      ...fields,
      cwd: cwd ?? job.project,
      env: { ...plain, ...named, ...env },
      env_given: Object.keys(env),
      detach: true,
      resume_on_restart: true,
    },
  };
}
