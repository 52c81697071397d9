/** Stops a child of a supervisor. */

import type { Clock } from "../../lib/clock.ts";
import { withTimeout } from "../../lib/timeout.ts";
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
  /** The kernel's clock: a grace also counts while the supervisor is paused. */
  clock: Clock;
}

/** How to end a child: by a TERM, or by suspending it with this status. */
export type Ask = "terminate" | ExitStatus;

/**
 * Asks the child to end, waits for its grace, then kills it; resolves when it is reaped. `hurry` ends the wait. Returns
 * the exit status, and whether the child was killed.
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
    const ended = Promise.race([child.done, hurry]);
    await (shutdown === "infinity" ? ended : withTimeout(ports.clock, shutdown, ended));
  }
  const dies = child.exit === undefined;
  if (dies) ports.signals.signalAll(ports.table.tree(child), SIGKILL, supervisor);
  const exit = await child.done;
  await ports.runner.reap(child);
  return { exit, killed: dies };
}

/** A nested supervisor suspends its own children, in its order. */
function suspendTree(table: ProcessTable, proc: Process, status: ExitStatus): void {
  proc.stop(status);
  if (proc.spec.kind === "supervisor") return;
  for (const pid of proc.children) {
    const child = table.find(pid);
    if (child) suspendTree(table, child, status);
  }
}
