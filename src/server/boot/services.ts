/** Starts what works beside requests. */

import { join } from "node:path";
import { daemonEnvironment } from "../../config/environment.ts";
import { type Env, homeNotice } from "../../config/paths.ts";
import type { Projects } from "../../config/projects.ts";
import type { ProviderChoice } from "../../kernel/types.ts";
import { requireOwn } from "../../store/runs/own-run.ts";
import { keepAddress } from "../plan/keep-address.ts";
import { planCall } from "../plan/plan-call.ts";
import { planAdopt, planModel, planResume } from "../plan/plan-resume.ts";
import { planSpawn, type SpawnPlan, type SpawnPorts } from "../plan/plan-spawn.ts";
import { type PlacedResume, parentUuid, placedSpawn } from "../plan/request-defaults.ts";
import { requireFolders } from "../plan/resume-differences.ts";
import { GcSchedule } from "../records/gc-schedule.ts";
import type { Run } from "../records/recorded-run.ts";
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
import type { Records } from "./records.ts";

interface StartedServices
  extends Pick<
    Services,
    | "init"
    | "recovery"
    | "cron"
    | "waker"
    | "resumeAnswered"
    | "plan"
    | "planCall"
    | "planResume"
    | "planModel"
    | "planAdopt"
  > {
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
  const environment = daemonEnvironment(env);
  const defaults = { dataDir: user.dataDir, environment, parent: planner.parent };
  const plan: Services["plan"] = async (asked, unit) => {
    const { request, notices: placed } = placedSpawn(asked, unit, defaults);
    // A child does not wait for init.yaml, because its parent runs already.
    const isChild = parentUuid(request, unit) !== undefined;
    const left = isChild ? [] : await init.ready(request);
    const { notices, ...planned } = await planSpawn(request, unit, planner);
    const ofUser = [keyNotice, homeNotice(user)].filter((notice) => notice !== undefined);
    return { ...planned, notices: [...left, ...ofUser, ...placed, ...notices] };
  };
  const callPlan: Services["planCall"] = async ({ env: given, ...place }) => {
    const from = { ...place, env: given ?? environment };
    // A server of init.yaml may have the tool.
    const left = place.tool?.includes("__") ? await init.ready(from) : [];
    const { notices, opts } = await planCall(from, planner);
    return { opts, notices: [...left, ...notices] };
  };
  const resumeIn = async (run: Run, request: PlacedResume, provider?: ProviderChoice): Promise<SpawnPlan> => {
    requireOwn(run.info);
    requireFolders(run.info);
    const left = await init.ready({ cwd: run.info.project, env: request.env });
    const { notices, ...planned } = await planResume(run, request, planner, provider);
    return { ...planned, notices: [...left, ...notices] };
  };
  const resumePlan: Services["planResume"] = async (run, { env, ...request }) => {
    if (env !== undefined) return resumeIn(run, { ...request, env });
    const had = waker?.inMemory(run.info.uuid);
    if (!had) return keepAddress(run.info, await resumeIn(run, { ...request, env: environment }));
    return resumeIn(run, { ...request, env: had.env }, had.provider ?? undefined);
  };
  const autoResume = new AutoResume({ kernel, find, planResume: resumeIn, logger });
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
    planResume: (run, request) => resumeIn(run, request),
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
    plan,
    planCall: callPlan,
    planResume: resumePlan,
    planModel: (run, { env = environment, ...chosen }, current) =>
      planModel(run, { env, ...chosen }, planner, current),
    planAdopt: (run, request) => planAdopt(run, { ...request, env: request.env ?? environment }, planner),
    async close() {
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
