/** The fourth tier of the kernel's parts: how a process is built, changed and ended, whatever its task is. */

import { DailyBudget } from "../budget/call-budget.ts";
import { CapabilityManager } from "../capability-manager.ts";
import { ConcurrencyManager } from "../concurrency-manager.ts";
import { ProcessBuilder } from "../lifetime/process-builder.ts";
import { ProcessRunner } from "../lifetime/process-runner.ts";
import { ProcGroupManager } from "../proc-group-manager.ts";
import { SignalManager } from "../signal-manager.ts";
import type { Io } from "./io.ts";

export interface Processes extends ReturnType<typeof buildProcesses> {}

export function buildProcesses(io: Io) {
  const signals = new SignalManager(io);
  const groups = new ProcGroupManager({ ...io, signals });
  const concurrency = new ConcurrencyManager(io);
  const { threads, coroutines } = concurrency;
  const { inboxes: messages, mounts, units } = io;
  const parts = {
    ...io,
    signals,
    groups,
    concurrency,
    holders: { mounts, units, messages, groups, signals, threads, coroutines },
    capabilities: new CapabilityManager(io),
  };
  const days = new DailyBudget(io);
  return {
    ...parts,
    runner: new ProcessRunner(parts),
    builder: new ProcessBuilder({ ...parts, days }),
  };
}
