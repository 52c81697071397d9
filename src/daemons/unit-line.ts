/** A background unit in one line. */

import type { DaemonSnapshot } from "../plugin/index.ts";

/**
 * What a change of a unit is shown as; null for one that is not shown. A unit that ends by itself is shown by the message
 * that its agent reads.
 */
export function unitLine(op: string, snapshot: DaemonSnapshot): string | null {
  const { id, kind, description } = snapshot;
  if (op === "added") return `unit ${id} [${kind}] started: ${description}`;
  if (op !== "killed") return null;
  return `unit ${id} [${kind}] ${op}${unitDetail(snapshot)}: ${description}`;
}

/** The exit code of a command, the lines of a monitor. */
export function unitDetail(snapshot: DaemonSnapshot): string {
  if (snapshot.kind === "local_bash" && snapshot.metadata.exit_code !== null)
    return `, exit code ${snapshot.metadata.exit_code}`;
  return snapshot.kind === "monitor" ? `, ${snapshot.metadata.event_count} lines` : "";
}
