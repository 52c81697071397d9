/** What a snapshot of a unit says: whether its status is terminal, whether it is a child of its owner. */

import type { DaemonSnapshot, DaemonStatus } from "../plugin/index.ts";

const TERMINAL: ReadonlySet<DaemonStatus> = new Set(["completed", "failed", "killed"]);

/** Whether a unit never leaves this status. */
export function isTerminal(status: DaemonStatus): boolean {
  return TERMINAL.has(status);
}

/** The phase of a teammate that waits for a message. */
export const IDLE = "idle";

/** Whether it keeps its owner alive: not what a driver runs, and no teammate that waits for a message. */
export function keepsOwner({ kind, metadata }: DaemonSnapshot): boolean {
  return kind !== "lsp" && !(kind === "in_process_teammate" && metadata.phase === IDLE);
}

/** The run of a unit that is a child of its owner: an agent, a workflow or a dream. */
export function childOf({ metadata }: DaemonSnapshot): string | undefined {
  return "uuid" in metadata ? metadata.uuid : undefined;
}
