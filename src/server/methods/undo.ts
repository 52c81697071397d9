/** The method undo. */

import { z } from "zod";
import { SyscallError } from "../../plugin/index.ts";
import { Target } from "../../protocol/fields.ts";
import type { UndoReport } from "../../protocol/methods.ts";
import type { Services } from "../services.ts";
import { method } from "./method.ts";
import { type FoundRun, findLiveRun, recordsOf, requireAgent } from "./shared/find-run.ts";
import { refuseInside } from "./shared/refuse-inside.ts";

/** Takes back what a run changed in files, or with `redo` reverses the last undo. */
export const undo = method({
  payload: () =>
    Target().extend({
      /** Files and folders, absolute. Absent or empty: all. */
      files: z.array(z.string().startsWith("/")).max(1000).optional(),
      /** The last step whose changes stay. Absent: none stays. */
      to_step: z.int().nonnegative().optional(),
      redo: z.boolean().optional(),
      /** Reports what would change, and changes nothing. */
      dry_run: z.boolean().optional(),
      /** Overwrites what others changed since in `files`. */
      force: z.boolean().optional(),
    }),
  async handle(payload, services, caller): Promise<UndoReport> {
    const { files = [], to_step = 0, redo = false, dry_run = false, force = false, ...target } = payload;
    refuseInside(caller, () => "undo is for a person: it is refused inside a run.");
    if (redo && payload.to_step !== undefined)
      throw new SyscallError("INVALID", "redo takes no to_step: it makes the last undo undone.");
    const found = await findLiveRun(services, target, "undone");
    requireAgent(found, "undone");
    if (to_step > found.info.steps) {
      const message = `Run ${found.info.uuid} has no step ${to_step}: it has ${found.info.steps} so far.`;
      throw new SyscallError("INVALID", message);
    }
    if (found.live) await requireQuiet(services, found, dry_run);
    const run = await recordsOf(services, found);
    const query = { files, toStep: to_step, redo, dryRun: dry_run, force };
    const report = await (await services.changes()).undo(run, query, found.live);
    if (found.live && !dry_run) await services.kernel.changes.undone(found.pid);
    return report;
  },
});

/** A process that works would change files meanwhile. */
async function requireQuiet(
  { kernel }: Services,
  { pid, info }: Extract<FoundRun, { live: true }>,
  dryRun: boolean,
): Promise<void> {
  if (!dryRun && !kernel.changes.isQuiet(pid)) {
    const message = `PID ${pid} is at work. Wait for its end, or suspend it first: rnix suspend ${info.pid}.`;
    throw new SyscallError("INVALID", message);
  }
  await kernel.changes.refresh(pid);
}
