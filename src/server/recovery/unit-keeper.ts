/** Decides which units' programs, left by dead kernels, are left to their runs. */

import { hasEnded } from "../../kernel/resume/saved-run.ts";
import type { LeftUnit } from "../../os/sweep.ts";
import { verdictOfStart } from "../records/crashed-run.ts";
import type { History } from "../records/history.ts";

/**
 * A program is left to a run that is live and has adopted it, that is parked on its units, or that resumes at once. A
 * child is resumed with its parent. `resumed`: what resumes at once has been resumed by now.
 */
export async function keepsUnit(
  history: Pick<History, "byUuid">,
  { uuid }: LeftUnit,
  resumed: boolean,
  kernelAlive: (kernelId: string) => boolean,
): Promise<boolean> {
  let run = (await history.byUuid(uuid))?.info;
  const passed = new Set<string>();
  while (run && run.parent_uuid !== null && !passed.has(run.uuid)) {
    passed.add(run.uuid);
    const parent = (await history.byUuid(run.parent_uuid))?.info;
    if (parent?.kind !== "agent" || hasEnded(parent)) break;
    run = parent;
  }
  if (!run || run.foreign || run.moved_from !== undefined || run.kind !== "agent") return false;
  // The record of a crashed run may still say that it runs.
  if (run.ended_at_ms === null) return !resumed || kernelAlive(run.kernel);
  if (run.suspended?.wake.on === "unit" && run.suspended.by_itself) return true;
  return !resumed && run.state === "suspended" && verdictOfStart(run).goesOn;
}
