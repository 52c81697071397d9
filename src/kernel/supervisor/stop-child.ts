/** Stops a child of a supervisor. */

import { withTimeout } from "../../lib/cancellation.ts";
import { SIGKILL, SIGTERM } from "../../lib/signals.ts";
import type { Process } from "../process/process.ts";
import type { ProcessTable } from "../process/process-table.ts";
import type { Processes } from "../tiers/processes.ts";
import type { ExitStatus } from "../types.ts";
import type { Shutdown } from "./spec.ts";

/** How to end a child: by a TERM, or by suspending it with this status. */
export type Ask = "terminate" | ExitStatus;

/**
 * Asks the child to end, waits for its grace, then kills it; resolves when it is reaped. `hurry` ends the wait. Returns
 * the exit status, and whether the child was killed.
 */
export async function stopChild(
  parts: Processes,
  supervisor: Process,
  child: Process,
  { shutdown, ask, hurry }: { shutdown: Shutdown; ask: Ask; hurry: Promise<void> },
): Promise<{ exit: ExitStatus; killed: boolean }> {
  if (shutdown !== "brutal_kill") {
    if (ask === "terminate") parts.signals.signalAll([child], SIGTERM, supervisor);
    else suspendTree(parts.table, child, ask);
    const ended = Promise.race([child.done, hurry]);
    await (shutdown === "infinity" ? ended : withTimeout(parts.clock, shutdown, ended));
  }
  const dies = child.exit === undefined;
  if (dies) parts.signals.signalAll(parts.table.tree(child), SIGKILL, supervisor);
  const exit = await child.done;
  await parts.runner.reap(child);
  return { exit, killed: dies };
}

/** A nested supervisor suspends its own children, in its order. */
function suspendTree(table: ProcessTable, proc: Process, status: ExitStatus): void {
  proc.stop(status);
  if (proc.spec.kind === "supervisor") return;
  for (const pid of proc.family.children) {
    const child = table.find(pid);
    if (child) suspendTree(table, child, status);
  }
}
