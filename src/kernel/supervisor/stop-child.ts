import type { Clock } from "../../lib/clock.ts";
import type { ProcessRunner } from "../lifetime/process-runner.ts";
import type { Process } from "../process/process.ts";
import type { ProcessTable } from "../process/process-table.ts";
import type { SignalManager } from "../signal-manager.ts";
import { type ExitStatus, SIGKILL, SIGTERM } from "../types.ts";
import type { Shutdown } from "./spec.ts";

export interface StopPorts {
  table: ProcessTable;
  runner: ProcessRunner;
  signals: SignalManager;
  /** The kernel's own: a grace runs on while its supervisor is paused. */
  clock: Clock;
}

/** How a child is to end: told to by a TERM, or laid down with this status, to be gone on with later. */
export type Ask = "terminate" | ExitStatus;

/**
 * Asks, waits, kills; resolves when the child is reaped. `hurry` cuts the waiting short. Answers how it ended,
 * and whether it had to be killed.
 */
export async function stopChild(
  ports: StopPorts,
  supervisor: Process,
  child: Process,
  { shutdown, ask, hurry }: { shutdown: Shutdown; ask: Ask; hurry: Promise<void> },
): Promise<{ exit: ExitStatus; killed: boolean }> {
  if (shutdown !== "brutal_kill") {
    if (ask === "terminate") ports.signals.signalAll([child], SIGTERM, supervisor);
    else suspendTree(ports.table, child, ask);
    await endsWithin(ports.clock, child, shutdown, hurry);
  }
  const dies = child.exit === undefined;
  if (dies) ports.signals.signalAll(ports.table.tree(child), SIGKILL, supervisor);
  const exit = await child.done;
  await ports.runner.reap(child);
  return { exit, killed: dies };
}

async function endsWithin(
  clock: Clock,
  child: Process,
  ms: number | "infinity",
  hurry: Promise<void>,
): Promise<void> {
  const late = Promise.withResolvers<void>();
  const timer = ms === "infinity" ? undefined : clock.timer(ms, late.resolve);
  await Promise.race([child.done, late.promise, hurry]);
  timer?.cancel();
}

/** A supervisor below suspends its own, in its order. */
function suspendTree(table: ProcessTable, proc: Process, status: ExitStatus): void {
  proc.stop(status);
  if (proc.spec.kind === "supervisor") return;
  for (const pid of proc.children) {
    const child = table.find(pid);
    if (child) suspendTree(table, child, status);
  }
}
