/** What a snapshot of a unit says: whether its status is terminal, whether it is a child of its owner. */

import type { DaemonSnapshot, DaemonStatus } from "../plugin/index.ts";

const TERMINAL: ReadonlySet<DaemonStatus> = new Set(["completed", "failed", "killed"]);

/** Whether a unit never leaves this status. */
export function isTerminal(status: DaemonStatus): boolean {
  return TERMINAL.has(status);
}

/** The run of a unit that is a child of its owner, an agent or a workflow. */
export function childOf(snapshot: DaemonSnapshot): string | undefined {
  const { kind, metadata } = snapshot;
  return kind === "local_agent" || kind === "local_workflow" ? metadata.uuid : undefined;
}
