/** Makes the schedules, with what they need of the planner, the kernel and the records. Loaded at their first use. */

import { join } from "node:path";
import { CRON } from "../../cron/cron-folder.ts";
import type { SchedulesPorts } from "../../cron/ports.ts";
import { Schedules } from "../../cron/schedules.ts";
import { BoundedMap } from "../../lib/caches.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { Activity } from "../../run/live-event.ts";
import { type DailySpending, localDay, spendingOfAgentJobs } from "../../store/daily-spending.ts";
import { FileLock } from "../../store/files/file-lock.ts";
import { deliver } from "../notify/deliver.ts";
import type { SpawnPlan, SpawnPorts } from "../plan/plan-spawn.ts";
import type { PlacedResume } from "../plan/request-defaults.ts";
import type { Run } from "../records/recorded-run.ts";
import { FileWatch, watchStateIn } from "../schedule/file-watch.ts";
import { Hooks } from "../schedule/hooks.ts";
import { IdleWatch } from "../schedule/idle-watch.ts";
import { completeRequest } from "../schedule/job-request.ts";
import { JobRuns, notifyOf, runGate } from "../schedule/job-runs.ts";
import { type JobPlanPorts, placedJob, preflightJob } from "../schedule/plan-job.ts";
import type { KernelPort } from "./kernel-port.ts";
import type { Machine } from "./machine.ts";
import type { BootOptions } from "./options.ts";
import type { OpenedProjects } from "./projects.ts";
import type { Records } from "./records.ts";

/** What boot has opened before the kernel. */
export interface SchedulesParts {
  options: BootOptions;
  machine: Machine;
  records: Records;
  projects: OpenedProjects;
  spawn: SpawnPorts;
  port: KernelPort;
}

/** What boot makes after the kernel. */
export interface LaterParts {
  ready: JobPlanPorts["ready"];
  planResume(run: Run, request: PlacedResume): Promise<SpawnPlan>;
  /** A suspended run has ended in its record. */
  ended(uuid: string): void;
}

export interface MadeSchedules {
  schedules: Schedules;
  /** A process has made a step, or has ended. */
  worked(pid: number): void;
  close(): Promise<void>;
}

/** Kinds of activity in which a process waits for the user or another process. */
const WAITS: readonly (Activity["kind"] | undefined)[] = ["input", "paused", "ask"];

/** How long a change of the jobs waits for another one. */
const LOCK_MS = 5000;
/** Projects whose spending of the day is remembered. */
const MAX_BOOKS = 100;
/** How long deliveries under way may take when the server closes. */
const CLOSE_MS = 3000;

export function makeSchedules(
  {
    options: { user, env, logger, settings, daemon = false },
    machine,
    records,
    projects,
    spawn,
    port,
  }: SchedulesParts,
  later: LaterParts,
): MadeSchedules {
  const { clock, children } = machine;
  const { key, history } = records;
  const { notifier } = projects;
  const plan: JobPlanPorts = {
    user,
    env,
    spawn,
    check: (agent, opts) => port.kernel.processes.check(agent, opts),
    ready: later.ready,
  };
  const jobRuns = new JobRuns({
    plan,
    kernel: () => port.kernel,
    find: async (uuid) => (await history()).byUuid(uuid),
    planResume(run, job) {
      const { request } = placedJob(job, plan);
      return later.planResume(run, { uuid: run.info.uuid, env: request.env });
    },
    ended: later.ended,
    now: () => clock.now(),
  });
  const closing = new AbortController();
  const idle = new Set<{ dir: string; jobId: string; watch: IdleWatch }>();
  const programs = { clock, children, spillDir: join(user.dataDir, "tmp") };
  const hooks = new Hooks({
    ...programs,
    portFile: join(user.dataDir, CRON, "port"),
    secretOf: (subject) => key.secretOf(`hook ${subject}`),
    warn: (text) => logger.warn("hooks", text),
  });
  const books = new BoundedMap<string, DailySpending>(MAX_BOOKS);
  const ports: SchedulesPorts = {
    clock,
    random: Math.random,
    uuid: () => Bun.randomUUIDv7(),
    userDataDir: user.dataDir,
    runs: daemon,
    seal: key.sealOf("cron"),
    async lock(path) {
      const lock = await FileLock.acquire(path, LOCK_MS);
      return { release: () => lock.release({ remove: true }) };
    },
    tryLock: (path) => FileLock.tryAcquire(path),
    complete: async (request, caller) => completeRequest(request, caller),
    preflight: (job, caller) => preflightJob(job, plan, caller?.run === null ? caller.env : {}),
    start: (start) => jobRuns.start(start),
    outcome: (row) => jobRuns.outcome(row),
    conversation: (job) => jobRuns.conversation(job),
    stop: (uuid) => jobRuns.stop(uuid),
    gate: async (job, command) => runGate(command, placedJob(job, plan).request, programs),
    async deliver(job, row, { to }) {
      const { cwd, env: jobEnv } = placedJob(job, plan).request;
      await deliver(job, row, to, {
        ...programs,
        cwd,
        env: jobEnv,
        resultOf: async (uuid) => (await (await history()).byUuid(uuid))?.info.result ?? null,
        closing: closing.signal,
      });
    },
    listen(job, project, events) {
      const { trigger } = job;
      if ("on_hook" in trigger) return hooks.open(job.id, trigger.on_hook, project, events);
      if ("on_idle" in trigger) {
        const watch = new IdleWatch(trigger, events, {
          clock,
          works: () => worksIn(port, project.dir, job.id),
          warn: (text) => logger.warn(`job ${job.name}`, text),
        });
        const made = { dir: project.dir, jobId: job.id, watch };
        idle.add(made);
        return {
          close() {
            watch.close();
            idle.delete(made);
          },
        };
      }
      if (!("on_change" in trigger)) throw new SyscallError("INTERNAL", `${job.name} waits for no event.`);
      return new FileWatch(job.project, trigger, events, {
        clock,
        ...watchStateIn(project.dataDir, job.id),
        warn: (text) => logger.warn(`job ${job.name}`, text),
      });
    },
    hookAddress: (project, name) => hooks.addressOf(project, name),
    agentBudget({ dataDir }) {
      const book = books.get(dataDir) ?? spendingOfAgentJobs(user.dataDir, dataDir);
      books.set(dataDir, book);
      const { tokens } = book.spent(localDay(clock.now()));
      return { tokens_used: tokens, tokens: settings.values.agent_jobs_tokens_per_day };
    },
    notify: (event) => notifyOf(event, { notifier, logger }),
    log: (level, source, text) => logger[level](source, text),
  };
  const schedules = new Schedules(ports);
  return {
    schedules,
    worked(pid) {
      if (idle.size === 0) return;
      const { project } = port.kernel.processes.identity(pid);
      const job = jobOf(port, pid);
      for (const { dir, jobId, watch } of idle) if (dir === project && job !== jobId) watch.worked();
    },
    async close() {
      // A delivery that is cut off counts as a try.
      const late = clock.timer(CLOSE_MS, () => closing.abort());
      try {
        await schedules.close();
      } finally {
        late.cancel();
      }
      hooks.close();
    },
  };
}

/** The job of the process's run or of one above it. */
function jobOf({ kernel }: KernelPort, pid: number): string | undefined {
  const byPid = new Map(kernel.processes.infos().map((info) => [info.pid, info]));
  let at = byPid.get(pid);
  while (at && !at.job) at = byPid.get(at.ppid);
  return at?.job?.id;
}

/** Whether a run of the project works, other than those of the job. */
function worksIn(port: KernelPort, project: string, jobId: string): boolean {
  const { kernel } = port;
  return kernel.processes
    .infos()
    .some(
      (info) =>
        info.project === project &&
        info.state === "running" &&
        !WAITS.includes(kernel.doing(info)?.kind) &&
        jobOf(port, info.pid) !== jobId,
    );
}
