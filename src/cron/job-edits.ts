/** Edits of a project's list of jobs: added, replaced, enabled, removed, each checked against the others. */

import { isoOf, isZone, localZone } from "../lib/time-zone.ts";
import { type JobTrigger, SyscallError } from "../plugin/index.ts";
import { MAX_JOBS, type StoredJob } from "./job.ts";
import type { JobList } from "./job-file.ts";
import type { CallingRun } from "./ports.ts";
import { hasOwnData, type JobProject } from "./project-list.ts";

/** The zone of the caller, which the daemon may not have. */
export function withZone(trigger: JobTrigger, zone: string | undefined): JobTrigger {
  const needsOne = ("cron" in trigger && !/^@every /.test(trigger.cron)) || "at" in trigger;
  if (!needsOne || trigger.tz !== undefined) return trigger;
  return { ...trigger, tz: zone && isZone(zone) ? zone : localZone() };
}

/** The job counts its instants from now on. Fails with PERMISSION for a run where the user has disabled it. */
export function enableJob(job: StoredJob, project: JobProject, run: CallingRun | null, now: number): void {
  if (job.held && run) {
    const message = `The user has disabled the job ${job.name}: only the user can enable it.`;
    throw new SyscallError("PERMISSION", message);
  }
  if (hasOwnData(project)) moveTo(project.dir, job);
  Object.assign(job, { state: "enabled", reason: null, since: isoOf(now), held: undefined });
}

export function disableJob(job: StoredJob, run: CallingRun | null): void {
  const by = run ? `the run ${run.uuid}` : "the user";
  Object.assign(job, { state: "disabled", reason: `disabled by ${by}`, held: run ? undefined : true });
}

/** Takes the job over into this folder: its project was moved or copied. */
function moveTo(dir: string, job: StoredJob): void {
  const { cwd } = job.run;
  if (typeof cwd === "string" && (cwd === job.project || cwd.startsWith(`${job.project}/`)))
    job.run = { ...job.run, cwd: dir + cwd.slice(job.project.length) };
  job.project = dir;
}

/** Puts the job in the place of the one with its name, or at the end. An edited job keeps what it was. */
export function insertJob(job: StoredJob, list: JobList): StoredJob {
  const at = list.jobs.findIndex(({ name }) => name === job.name);
  const before = list.jobs[at];
  if (!before) {
    if (list.jobs.length >= MAX_JOBS)
      throw new SyscallError("EXHAUSTED", `A project has at most ${MAX_JOBS} jobs.`);
    list.jobs.push(job);
    list.removed = list.removed.filter(({ name }) => name !== job.name);
    return job;
  }
  // The same instants go on counting; another trigger begins now.
  const sameTrigger = JSON.stringify(before.trigger) === JSON.stringify(job.trigger);
  const { id, created_at, since, conversation } = before;
  const edited = {
    ...job,
    id,
    created_at: sameTrigger ? created_at : job.created_at,
    since: sameTrigger && before.state === "enabled" ? since : job.since,
    ...(conversation !== undefined && job.continue && { conversation }),
  };
  list.jobs[at] = edited;
  return edited;
}

export function jobNamed(name: string, { jobs }: JobList): StoredJob {
  const job = jobs.find((one) => one.name === name || one.id === name);
  if (job) return job;
  const known = jobs.map((one) => one.name).slice(0, 20);
  const message = `There is no job ${name} in this project. ${known.length === 0 ? "It has none." : `It has ${known.join(", ")}.`}`;
  throw new SyscallError("NOT_FOUND", message);
}

/** Fails with INVALID when jobs would start each other without end. */
export function requireNoCycle(job: StoredJob, { jobs }: JobList): void {
  const way = [job.name];
  for (let at: StoredJob | undefined = job; at && "after" in at.trigger; ) {
    const { after }: { after: string } = at.trigger;
    way.push(after);
    if (after === job.name)
      throw new SyscallError("INVALID", `These jobs would start each other: ${way.join(" after ")}.`);
    at = jobs.find(({ name }) => name === after);
    if (!at && way.length === 2)
      throw new SyscallError("INVALID", `after: there is no job ${after} in this project. Add it first.`);
    if (way.length > jobs.length + 2) return;
  }
}
