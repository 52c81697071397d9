/** The schedules: their files, and what they need of the planner, the kernel and the records. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { CRON } from "../../cron/cron-folder.ts";
import type { CallingRun, SchedulesPorts } from "../../cron/ports.ts";
import type { Schedules } from "../../cron/schedules.ts";
import type { ScheduleCaller } from "../../kernel/process/schedule-caller.ts";
import { type Schedule, SyscallError } from "../../plugin/index.ts";
import { FileLock } from "../../store/files/file-lock.ts";
import type { SpawnPlan, SpawnPorts } from "../plan/plan-spawn.ts";
import type { PlacedResume } from "../plan/request-defaults.ts";
import type { Run } from "../records/recorded-run.ts";
import { FileWatch } from "../schedule/file-watch.ts";
import { gateRunner } from "../schedule/gate.ts";
import { Hooks } from "../schedule/hooks.ts";
import { completeRequest } from "../schedule/job-request.ts";
import { JobRuns } from "../schedule/job-runs.ts";
import { notifyOf } from "../schedule/notify.ts";
import { type JobPlanPorts, placedJob, preflightJob } from "../schedule/plan-job.ts";
import { watchStateIn } from "../schedule/watch-state.ts";
import type { KernelEvents } from "./kernel-events.ts";
import type { KernelPort } from "./kernel-port.ts";
import type { Machine } from "./machine.ts";
import type { BootOptions } from "./options.ts";
import type { OpenedProjects } from "./projects.ts";
import type { Records } from "./records.ts";

export interface OpenedCron {
  /** The service `schedule`. */
  schedule(caller: ScheduleCaller): Schedule;
  /** Connects what is built later, and listens to the kernel. */
  connect(parts: CronParts): void;
  /** In a daemon: runs the schedules of all projects. */
  start(): void;
  /** The daemon stays for its schedules. */
  readonly busy: boolean;
  close(): Promise<void>;
}

interface CronParts {
  events: KernelEvents;
  ready: JobPlanPorts["ready"];
  planResume(run: Run, request: PlacedResume): Promise<SpawnPlan>;
  /** A suspended run has ended in its record. */
  ended(uuid: string): void;
}

/** How long a change of the jobs waits for another one. */
const LOCK_MS = 5000;
/** How long deliveries under way may take when the server closes. */
const CLOSE_MS = 3000;

export function openCron(
  { user, env, logger, daemon = false }: BootOptions,
  { clock, children }: Machine,
  { key, history }: Records,
  { notifier }: OpenedProjects,
  spawn: SpawnPorts,
  port: KernelPort,
): OpenedCron {
  let parts: CronParts | undefined;
  const plan: JobPlanPorts = {
    user,
    env,
    spawn,
    check: (agent, opts) => port.kernel.processes.check(agent, opts),
    ready: async (where) => (await parts?.ready(where)) ?? [],
  };
  const jobRuns = new JobRuns({
    plan,
    kernel: () => port.kernel,
    find: (uuid) => history.byUuid(uuid),
    planResume(run, job) {
      if (!parts) throw new SyscallError("INTERNAL", "A job was resumed before boot had finished.");
      const { request } = placedJob(job, plan);
      return parts.planResume(run, { uuid: run.info.uuid, env: request.env });
    },
    ended: (uuid) => parts?.ended(uuid),
    now: () => clock.now(),
  });
  const closing = new AbortController();
  const hooks = new Hooks({
    clock,
    children,
    spillDir: join(user.dataDir, "tmp"),
    portFile: join(user.dataDir, CRON, "port"),
    secretOf: (subject) => key.secretOf(`hook ${subject}`),
    warn: (text) => logger.warn("hooks", text),
  });
  const gate = gateRunner({ children, clock, spillDir: join(user.dataDir, "tmp") });
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
    preflight: (job) => preflightJob(job, plan),
    start: (start) => jobRuns.start(start),
    outcome: (row) => jobRuns.outcome(row),
    conversation: (job) => jobRuns.conversation(job),
    stop: (uuid) => jobRuns.stop(uuid),
    gate: (job, command) => gate(placedJob(job, plan).request, command),
    async deliver(job, row, { to }) {
      const { deliver } = await import("../notify/deliver.ts");
      const { cwd, env: jobEnv } = placedJob(job, plan).request;
      await deliver(job, row, to, {
        children,
        clock,
        spillDir: join(user.dataDir, "tmp"),
        cwd,
        env: jobEnv,
        resultOf: async (uuid) => (await history.byUuid(uuid))?.info.result ?? null,
        closing: closing.signal,
      });
    },
    listen(job, project, events) {
      const { trigger } = job;
      if ("on_hook" in trigger) return hooks.open(job.id, trigger.on_hook, project, events);
      if (!("on_change" in trigger)) throw new SyscallError("INTERNAL", `${job.name} waits for no event.`);
      return new FileWatch(project.dir, trigger, events, {
        clock,
        ...watchStateIn(join(project.dataDir, CRON, "watch", `${job.id}.json`)),
        warn: (text) => logger.warn(`job ${job.name}`, text),
      });
    },
    hookAddress: (project, name) => hooks.addressOf(project, name),
    notify: (event) => notifyOf(event, { notifier, logger }),
    log: (level, source, text) => logger[level](source, text),
  };
  let opened: Promise<Schedules> | undefined;
  let loaded: Schedules | undefined;
  // Loaded at the first use: a plain spawn needs none of it.
  const schedules = (): Promise<Schedules> => {
    opened ??= import("../../cron/schedules.ts").then((module) => {
      loaded = new module.Schedules(ports);
      return loaded;
    });
    return opened;
  };
  const changed = (pid: number): void => {
    const { job, uuid } = port.kernel.processes.info(pid);
    if (job === null) return;
    loaded?.changed(uuid).catch((thrown: unknown) => logger.warn("schedules", String(thrown)));
  };
  return {
    schedule: ({ project, cwd, env: given, run }) =>
      lazySchedule(async () =>
        (await schedules()).of({ project, cwd, env: given, run: run && callingRun(run) }),
      ),
    connect(later) {
      parts = later;
      later.events.add({ onSpawn: changed, onComplete: changed });
    },
    start() {
      if (!daemon || !existsSync(join(user.dataDir, CRON, "projects.json"))) return;
      schedules()
        .then((made) => made.start())
        .catch((thrown: unknown) => logger.warn("schedules", String(thrown)));
    },
    get busy() {
      return loaded?.busy ?? false;
    },
    async close() {
      // A delivery that is cut off counts as a try.
      const late = clock.timer(CLOSE_MS, () => closing.abort());
      try {
        await loaded?.close();
      } finally {
        late.cancel();
      }
      hooks.close();
    },
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
