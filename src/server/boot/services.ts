/** Starts what works beside requests in a daemon. */

import { daemonEnvironment } from "../../config/environment/environment.ts";
import type { Env } from "../../config/environment/paths.ts";
import type { Projects } from "../../config/project/project.ts";
import { KernelWatch } from "../daemon/kernel-locks.ts";
import type { SpawnPorts } from "../plan/plan-spawn.ts";
import { GcSchedule } from "../records/collector.ts";
import { DaemonInit } from "../recovery/init-service.ts";
import { SupervisedRuns } from "../recovery/supervised-runs.ts";
import { topSuspended, wakerListener, wakerOf } from "../recovery/waker.ts";
import type { OpenedCron } from "./cron.ts";
import type { StartedKernel } from "./kernel.ts";
import type { Machine } from "./machine.ts";
import { openRecovery } from "./open-recovery.ts";
import type { BootOptions } from "./options.ts";
import { makePlans } from "./plans.ts";
import type { Records } from "./records.ts";

/** Starts what works beside requests: init.yaml, recovery, the waker and the collection of old runs. */
export async function startServices(
  options: BootOptions,
  machine: Machine,
  records: Records,
  planner: SpawnPorts,
  started: StartedKernel,
  cron: OpenedCron,
) {
  const { user, env, settings, logger } = options;
  const { clock, locks, sweep } = machine;
  const { kernel, events } = started;
  const { open, projects, lastCollected } = records;
  const [history, collector] = await Promise.all([records.history(), records.collector()]);
  const supervised = new SupervisedRuns();
  const init = new DaemonInit({
    user,
    env,
    clock,
    logger,
    kernel: kernel.init,
    spawn: planner,
    projects: () => projectFolders(projects),
    before: (place) => supervised.take(place),
  });
  const plans = makePlans({
    user,
    planner,
    keyNotice: records.keyNotice,
    ready: (where) => init.ready(where),
    endpoint: env.OTEL_EXPORTER_OTLP_ENDPOINT,
    environment: daemonEnvironment(env),
    inMemory: (uuid) => waker.inMemory(uuid),
  });
  const { recovery, autoResume } = await openRecovery(
    ...([options, machine, records, started, plans.planResumeIn] as const),
    { supervised, isStarting: () => init.starting },
  );
  const onDeath = (): void => {
    void sweep();
    // A killed daemon can hold its lock for a moment after the next one has started.
    recovery.again();
  };
  const deaths = new KernelWatch({ clock, locks, onDeath });
  const waker = wakerOf({ clock, history, runs: open, kernel, autoResume, logger });
  events.add(wakerListener(waker, kernel));
  const resumeAnswered = async (uuid: string, given: Env | undefined): Promise<number> => {
    const top = await topSuspended(uuid, history);
    const inMemory = waker.inMemory(top) ?? (given && { env: definedIn(given), provider: null });
    return autoResume.resume(top, "it was answered", inMemory);
  };
  cron.connect({
    events,
    ready: (where) => init.ready(where),
    planResume: (run, request) => plans.planResumeIn(run, request),
    ended(uuid) {
      waker.began(uuid);
      waker.ended(uuid);
    },
  });
  const { retention_every: everyMs } = settings.values;
  const gc = new GcSchedule({ collector, lastPath: lastCollected, everyMs, clock, logger });
  return {
    init,
    recovery,
    waker,
    resumeAnswered,
    ...plans,
    async close() {
      deaths.close();
      await cron.close();
      await gc.close();
      await waker.close();
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
