/** The schedules: their files, and what they need of the planner, the kernel and the records. */

import type { CallingRun, SchedulesPorts } from "../../cron/ports.ts";
import type { Schedules } from "../../cron/schedules.ts";
import type { ScheduleCaller } from "../../kernel/process/schedule-caller.ts";
import { type Schedule, SyscallError } from "../../plugin/index.ts";
import { FileLock } from "../../store/files/file-lock.ts";
import type { SpawnPorts } from "../plan/plan-spawn.ts";
import { completeRequest } from "../schedule/job-request.ts";
import { type JobPlanPorts, preflightJob } from "../schedule/plan-job.ts";
import type { KernelPort } from "./kernel-port.ts";
import type { Machine } from "./machine.ts";
import type { BootOptions } from "./options.ts";
import type { OpenedProjects } from "./projects.ts";
import type { Records } from "./records.ts";

export interface OpenedCron {
  /** The service `schedule`. */
  schedule(caller: ScheduleCaller): Schedule;
  close(): Promise<void>;
}

/** How long a change of the jobs waits for another one. */
const LOCK_MS = 5000;

export function openCron(
  { user, env, logger, daemon = false }: BootOptions,
  { clock }: Machine,
  { key }: Records,
  _projects: OpenedProjects,
  spawn: SpawnPorts,
  _port: KernelPort,
): OpenedCron {
  const plan: JobPlanPorts = { user, env, spawn, ready: async () => [] };
  const ports: SchedulesPorts = {
    clock,
    random: Math.random,
    uuid: () => Bun.randomUUIDv7(),
    userDataDir: user.dataDir,
    runs: daemon,
    seal: key.sealOf("cron"),
    lock: (path) => FileLock.acquire(path, LOCK_MS),
    tryLock: (path) => FileLock.tryAcquire(path),
    complete: async (request, caller) => completeRequest(request, caller),
    preflight: (job) => preflightJob(job, plan),
    start: () => Promise.reject(new SyscallError("UNAVAILABLE", "No schedules run here.")),
    outcome: async () => null,
    stop: async () => undefined,
    gate: () => Promise.reject(new SyscallError("UNAVAILABLE", "No schedules run here.")),
    notify: () => undefined,
    log: (level, source, text) => logger[level](source, text),
  };
  let opened: Promise<Schedules> | undefined;
  // Loaded at the first use: a plain spawn needs none of it.
  const schedules = (): Promise<Schedules> => {
    opened ??= import("../../cron/schedules.ts").then((loaded) => new loaded.Schedules(ports));
    return opened;
  };
  return {
    schedule: ({ project, cwd, env: given, run }) =>
      lazySchedule(async () =>
        (await schedules()).of({ project, cwd, env: given, run: run && callingRun(run) }),
      ),
    close: async () => undefined,
  };
}

/** A service that is made at its first use. */
function lazySchedule(make: () => Promise<Schedule>): Schedule {
  let made: Promise<Schedule> | undefined;
  const it = (): Promise<Schedule> => {
    made ??= make();
    return made;
  };
  return {
    add: async (job) => (await it()).add(job),
    list: async (query) => (await it()).list(query),
    remove: async (name) => (await it()).remove(name),
    enable: async (name) => (await it()).enable(name),
    disable: async (name) => (await it()).disable(name),
    run: async (name) => (await it()).run(name),
    history: async (query) => (await it()).history(query),
    next: async (query) => (await it()).next(query),
  };
}

/** What a run that makes a job hands down: its rights and limits. */
function callingRun({
  uuid,
  agent,
  job,
  permissions,
  max_steps,
  context_budget,
  max_cost,
  timeout_ms,
}: NonNullable<ScheduleCaller["run"]>): CallingRun {
  const rights = { permissions, max_steps, context_budget, max_cost, timeout_ms };
  return { uuid, agent, jobId: job?.id ?? null, rights };
}
