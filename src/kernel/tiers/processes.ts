/** The fourth tier of the kernel's parts: how a process is built, changed and ended, whatever its task is. */

import { lazy } from "../../lib/caches.ts";
import { DailyBudget } from "../budget/call-budget.ts";
import { CapabilityManager } from "../capability-manager.ts";
import { ConcurrencyManager } from "../concurrency-manager.ts";
import { ProcessBuilder } from "../lifetime/process-builder.ts";
import { ProcessRunner } from "../lifetime/process-runner.ts";
import { ProcGroupManager } from "../proc-group-manager.ts";
import type { ResourceHolder } from "../process/resource-holder.ts";
import { SignalManager } from "../signal-manager.ts";
import type { Io } from "./io.ts";

export interface Processes extends ReturnType<typeof buildProcesses> {}

export function buildProcesses(io: Io) {
  const signals = lazy(() => new SignalManager(io));
  const groups = lazy(() => new ProcGroupManager({ ...io, signals }));
  const concurrency = lazy(() => new ConcurrencyManager(io));
  const { inboxes: messages, mounts, units } = io;
  const parts = {
    ...io,
    signals,
    groups,
    concurrency,
    holders: {
      mounts,
      units,
      messages,
      groups: heldBy(() => groups.made),
      signals: heldBy(() => signals.made),
      threads: heldBy(() => concurrency.made?.threads),
      coroutines: heldBy(() => concurrency.made?.coroutines),
    },
    capabilities: lazy(() => new CapabilityManager(io)),
  };
  const days = new DailyBudget(io);
  return {
    ...parts,
    runner: new ProcessRunner(parts),
    builder: new ProcessBuilder({ ...parts, days }),
  };
}

/** The holder that a part is, or has, once it is made: before, it holds nothing. */
function heldBy(holder: () => ResourceHolder | undefined): ResourceHolder {
  return {
    clear: (proc) => holder()?.clear(proc),
    get size() {
      return holder()?.size ?? 0;
    },
  };
}
