/** The border of the schedules: a plain spawn loads none of them. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { CRON } from "../../cron/cron-folder.ts";
import type { CallingRun } from "../../cron/ports.ts";
import type { Schedules } from "../../cron/schedules.ts";
import type { ScheduleCaller } from "../../kernel/kernel-ports.ts";
import { lazy } from "../../lib/caches.ts";
import { limitsNamed, namesWith, pickOptions } from "../../options/option-list.ts";
import { type Schedule, SyscallError } from "../../plugin/index.ts";
import type { KernelEvents } from "./kernel-port.ts";
import type { LaterParts, MadeSchedules, SchedulesParts } from "./schedules.ts";

export interface OpenedCron {
  schedule(caller: ScheduleCaller): Schedule;
  /** Connects what is built later. */
  connect(later: LaterParts & { events: KernelEvents }): void;
  start(): void;
  /** The daemon stays for its schedules. */
  readonly busy: boolean;
  close(): Promise<void>;
}

export function openCron(parts: SchedulesParts): OpenedCron {
  const { options, port } = parts;
  const { user, logger, daemon = false } = options;
  let later: (LaterParts & { events: KernelEvents }) | undefined;
  let loaded: MadeSchedules | undefined;
  const opened = lazy(async () => {
    if (!later) throw new SyscallError("INTERNAL", "The schedules were used before boot had finished.");
    const { makeSchedules } = await import("./schedules.ts");
    loaded = makeSchedules(parts, later);
    later.events.add({ onSpawn: changed, onStep: worked, onComplete: changed });
    return loaded;
  });
  const schedules = async (): Promise<Schedules> => (await opened()).schedules;
  const worked = (pid: number): void => loaded?.worked(pid);
  const changed = (pid: number): void => {
    const { job, uuid } = port.kernel.processes.identity(pid);
    worked(pid);
    if (job === null) return;
    loaded?.schedules.changed(uuid).catch((thrown: unknown) => logger.warn("schedules", String(thrown)));
  };
  return {
    schedule: ({ project, cwd, env, run, jobId }) =>
      lazySchedule(async () =>
        (await schedules()).of({ project, cwd, env, run: run && callingRun(run, jobId) }),
      ),
    connect(made) {
      later = made;
    },
    start() {
      if (!daemon || !existsSync(join(user.dataDir, CRON, "projects.json"))) return;
      schedules()
        .then((made) => made.start())
        .catch((thrown: unknown) => logger.warn("schedules", String(thrown)));
    },
    get busy() {
      return loaded?.schedules.busy ?? false;
    },
    async close() {
      // A failure to load was reported to the first user.
      await (await opened.end()?.catch(() => undefined))?.close();
    },
  };
}

/** A service that is made at its first use. */
function lazySchedule(make: () => Promise<Schedule>): Schedule {
  const it = lazy(make);
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
function callingRun(run: NonNullable<ScheduleCaller["run"]>, jobId: string | null): CallingRun {
  const { uuid, agent, permissions, provider, model, sandbox } = run;
  const options = pickOptions(run.options, namesWith({ inherited: true }));
  const rights = { permissions, sandbox, ...options, ...limitsNamed((limit) => run[limit]) };
  const isKnown = provider !== "" && model !== "";
  return { uuid, agent, jobId, rights, model: isKnown ? { provider, model } : null };
}
