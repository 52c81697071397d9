/** Which statuses of a unit are terminal. */

import type { DaemonStatus } from "../plugin/index.ts";

const TERMINAL: ReadonlySet<DaemonStatus> = new Set(["completed", "failed", "killed"]);

/** Whether a unit never leaves this status. */
export function isTerminal(status: DaemonStatus): boolean {
  return TERMINAL.has(status);
}
