/** Starts what works beside requests. */

import { join } from "node:path";
import { daemonEnvironment } from "../../config/environment/environment.ts";
import type { Env } from "../../config/environment/paths.ts";
import type { Projects } from "../../config/project/projects.ts";
import { KernelWatch } from "../daemon/kernel-watch.ts";
import type { SpawnPorts } from "../plan/plan-spawn.ts";
import { GcSchedule } from "../records/gc-schedule.ts";
import { AutoResume } from "../recovery/auto-resume.ts";
import { DaemonInit } from "../recovery/init-service.ts";
import { Recovery } from "../recovery/recovery.ts";
import { SupervisedRuns } from "../recovery/supervised-runs.ts";
import { topSuspended, wakerListener, wakerOf } from "../recovery/waker-listener.ts";
import type { Services } from "../services.ts";
import type { OpenedCron } from "./cron.ts";
import type { StartedKernel } from "./kernel.ts";
import type { Machine } from "./machine.ts";
import type { BootOptions } from "./options.ts";
import { makePlans } from "./plans.ts";
import type { Records } from "./records.ts";

type Plans = Pick<Services, "plan" | "planCall" | "planResume" | "planModel" | "planAdopt">;

interface StartedServices
  extends Plans,
    Pick<Services, "init" | "recovery" | "cron" | "waker" | "resumeAnswered"> {
  close(): Promise<void>;
}

/** Starts what works beside requests: init.yaml, recovery, the waker and the collection of old runs. */
export function startServices(
  { user, env, settings, logger, daemon = false }: BootOptions,
  { clock, locks, sweep }: Machine,
  { open, dataDirs, projects, history, collector, lastCollected, keyNotice }: Records,
  planner: SpawnPorts,
  { kernel, events }: StartedKernel,
  cron: OpenedCron,
): StartedServices {
  const find = (uuid: string) => history.byUuid(uuid);
  const supervised = new SupervisedRuns();
  const init = new DaemonInit({
    kernel: kernel.init,
    user,
    env,
    clock,
    projects: () => projectFolders(projects),
    spawn: planner,
    before: (place) => supervised.take(place),
    logger,
  });
  const { planResumeIn, ...plans } = makePlans({
    ...{ user, planner, init, keyNotice },
    endpoint: daemon ? env.OTEL_EXPORTER_OTLP_ENDPOINT : null,
    environment: daemonEnvironment(env),
    inMemory: (uuid) => waker?.inMemory(uuid),
  });
  const autoResume = new AutoResume({ kernel, find, planResume: planResumeIn, logger });
  const recovery = new Recovery({
    clock,
    lockFile: join(user.dataDir, "recovery.lock"),
    locks,
    dataDirs,
    open,
    supervised,
    endPrograms: sweep,
    supervisedTaken: () => !init.starting,
    find,
    resume: (uuid) => autoResume.resume(uuid, "rnix has started again"),
    logger,
  });
  events.add({ onSweep: () => recovery.again() });
  const onDeath = (): void => {
    void sweep();
    // A killed daemon can hold its lock for a moment after the next one has started.
    recovery.again();
  };
  const deaths = daemon ? new KernelWatch({ clock, locks, onDeath }) : undefined;
  const waker = daemon ? wakerOf({ clock, history, runs: open, kernel, autoResume, logger }) : undefined;
  if (waker) events.add(wakerListener(waker, kernel));
  const resumeAnswered = async (uuid: string, given: Env | undefined): Promise<number> => {
    const top = await topSuspended(uuid, history);
    const inMemory = waker?.inMemory(top) ?? (given && { env: definedIn(given), provider: null });
    return autoResume.resume(top, "it was answered", inMemory);
  };
  cron.connect({
    events,
    ready: (where) => init.ready(where),
    planResume: (run, request) => planResumeIn(run, request),
    ended(uuid) {
      waker?.began(uuid);
      waker?.ended(uuid);
    },
  });
  const { retention_every: everyMs } = settings.values;
  const gc = daemon
    ? new GcSchedule({ collector, lastPath: lastCollected, everyMs, clock, logger })
    : undefined;
  return {
    init,
    recovery,
    cron,
    waker,
    resumeAnswered: waker && resumeAnswered,
    ...plans,
    async close() {
      deaths?.close();
      await cron.close();
      await gc?.close();
      await waker?.close();
      await recovery.close();
    },
  };
}

function definedIn(env: Env): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
}

/** Folders of known projects. Runs outside of projects have the user's init.yaml only. */
function projectFolders(projects: Projects): string[] {
  const known = projects.list().filter(({ id }) => id !== "user");
  return [...new Set(known.map(({ dir }) => dir))];
}
