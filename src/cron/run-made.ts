/** What runs may do with jobs: never more than the run itself, and never against the user. */

import { formatDuration } from "../lib/duration.ts";
import { instantOf, isoOf } from "../lib/time-zone.ts";
import { type JobRequest, SyscallError } from "../plugin/index.ts";
import type { JobRights, StoredJob } from "./job.ts";
import type { JobList } from "./job-file.ts";
import type { CallingRun, JobCaller, SharedBudget } from "./ports.ts";
import { type ClockTrigger, isClockTrigger, timetableOf } from "./timetable.ts";

const DAY_MS = 86_400_000;
/** The end of a job that a run makes without one, and the latest that it may ask for. */
const DEFAULT_LIFE_MS = 7 * DAY_MS;
const LONGEST_LIFE_MS = 30 * DAY_MS;
const MAX_OF_RUNS = 50;
/** The least time between two instants of a job that a run makes, and between two of its starts by events. */
export const LEAST_INTERVAL_MS = 5 * 60_000;
/** Instants of a timetable that are compared. */
const COMPARED = 64;

/** What a job made by a run gets beside the request: the run's rights and an expiry. */
export function rightsOf(
  { expires_at, trigger }: Pick<JobRequest, "expires_at" | "trigger">,
  { rights, jobId }: CallingRun,
  { jobs }: JobList,
  now: number,
): { rights: JobRights; expires_at: string } {
  const own = jobs.find(({ id }) => id === jobId);
  if (jobId !== null && (own === undefined || own.held)) {
    const message = "The job of this run was disabled, removed or replaced: the run can make no other job.";
    throw new SyscallError("PERMISSION", message);
  }
  const end = own?.expires_at;
  const latest = Math.min(
    now + LONGEST_LIFE_MS,
    end === undefined ? Number.POSITIVE_INFINITY : instantOf(end),
  );
  const wanted = expires_at === undefined ? now + DEFAULT_LIFE_MS : instantOf(expires_at);
  if (expires_at !== undefined && wanted > latest) {
    const message = `expires_at: a job made by a run ends at ${isoOf(latest)} at the latest, got ${expires_at}.`;
    throw new SyscallError("PERMISSION", message);
  }
  if (isClockTrigger(trigger)) requireInterval(trigger, now);
  return { rights, expires_at: isoOf(Math.min(wanted, latest)) };
}

/** Why no run of a job that a run made may begin today; null: it may. */
export function sharedBudgetOver({ tokens_used, tokens }: SharedBudget): string | null {
  if (tokens === null || tokens_used < tokens) return null;
  return `the tokens of the day of all jobs that runs made are used: ${tokens_used} of ${tokens} (setting agent_jobs_tokens_per_day)`;
}

function requireInterval(trigger: ClockTrigger, now: number): void {
  const table = timetableOf(trigger, now);
  let last = table.next(now);
  for (let n = 0; n < COMPARED && last !== null; n++) {
    const next = table.next(last);
    if (next !== null && next - last < LEAST_INTERVAL_MS) {
      const message = `trigger: a job made by a run has at least ${formatDuration(LEAST_INTERVAL_MS)} between its times, got ${formatDuration(next - last)}. Only the user can make one that runs more often.`;
      throw new SyscallError("PERMISSION", message);
    }
    last = next;
  }
}

/** Fails with INVALID for a name that is taken, with PERMISSION for what the user has decided otherwise. */
export function requireMayAdd(
  job: StoredJob,
  { jobs, removed }: JobList,
  caller: JobCaller,
  replace: boolean,
): void {
  const before = jobs.find(({ name }) => name === job.name);
  if (before && !replace) {
    const message = `There is a job ${job.name} already. Choose another name, remove it, or edit it with --replace.`;
    throw new SyscallError("INVALID", message);
  }
  if (before) requireMayChange(before, caller, "replaced");
  if (!caller.run) return;
  if (before?.held) {
    const message = `The user has disabled the job ${job.name}: only the user can change it.`;
    throw new SyscallError("PERMISSION", message);
  }
  if (removed.some(({ name, by }) => name === job.name && by === "user")) {
    const message = `The user has removed the job ${job.name}: no run can add it again.`;
    throw new SyscallError("PERMISSION", message);
  }
  if (!before && jobs.filter(({ creator }) => creator.kind === "run").length >= MAX_OF_RUNS) {
    const message = `Runs have made ${MAX_OF_RUNS} jobs in this project: remove one first.`;
    throw new SyscallError("EXHAUSTED", message);
  }
}

/** A run changes the jobs only that it has made itself. */
export function requireMayChange({ name, creator }: StoredJob, { run }: JobCaller, done: string): void {
  if (!run || (creator.kind === "run" && creator.uuid === run.uuid)) return;
  const whose = creator.kind === "user" ? "the user" : `the run ${creator.uuid}`;
  const message = `The job ${name} was made by ${whose}: it can't be ${done} by this run.`;
  throw new SyscallError("PERMISSION", message);
}
