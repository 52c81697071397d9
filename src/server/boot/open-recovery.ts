/** Opens the recovery of runs whose kernel has died. */

import { join } from "node:path";
import { AutoResume } from "../recovery/auto-resume.ts";
import { Recovery } from "../recovery/recovery.ts";
import { SupervisedRuns } from "../recovery/supervised-runs.ts";
import type { StartedKernel } from "./kernel.ts";
import type { Machine } from "./machine.ts";
import type { BootOptions } from "./options.ts";
import type { Plans } from "./plans.ts";
import type { Records } from "./records.ts";

/** `init`: whether init.yaml is starting, and the runs that wait for its units. Only a daemon starts one. */
export async function openRecovery(
  { user, logger }: BootOptions,
  { clock, locks, sweep }: Machine,
  { open, dataDirs, history }: Records,
  { kernel, events }: StartedKernel,
  planResume: Plans["planResumeIn"],
  init?: { supervised: SupervisedRuns; isStarting(): boolean },
) {
  const recorded = await history();
  const find = (uuid: string) => recorded.byUuid(uuid);
  const autoResume = new AutoResume({ kernel, find, planResume, logger });
  const recovery = new Recovery({
    clock,
    locks,
    dataDirs,
    open,
    find,
    logger,
    lockFile: join(user.dataDir, "recovery.lock"),
    supervised: init?.supervised ?? new SupervisedRuns(),
    endPrograms: sweep,
    supervisedTaken: () => init?.isStarting() !== true,
    resume: (uuid) => autoResume.resume(uuid, "rnix has started again"),
  });
  events.add({ onSweep: () => recovery.again() });
  return { recovery, autoResume };
}
