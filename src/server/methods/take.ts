/** The method take. */

import { z } from "zod";
import { Target } from "../../protocol/fields.ts";
import type { TakeReport } from "../../protocol/methods.ts";
import { requireOwn } from "../../store/runs/own-run.ts";
import { method } from "./method.ts";
import { findRun, recordsOf } from "./shared/find-run.ts";
import { refuseInside } from "./shared/refuse-inside.ts";

/** Takes what a run changed in its worktree into its project. */
export const take = method({
  payload: () =>
    Target().extend({
      /** Files and folders, absolute. Absent or empty: all. */
      files: z.array(z.string().startsWith("/")).max(1000).optional(),
      /** Reports what would change, and changes nothing. */
      dry_run: z.boolean().optional(),
    }),
  async handle({ files = [], dry_run = false, ...target }, services, caller): Promise<TakeReport> {
    refuseInside(caller, () => "take is for a person: an agent has the tool TakeDiff.");
    const { info, records } = await recordsOf(services, await findRun(services, target));
    requireOwn(info);
    const { pid, uuid, project } = info;
    const worktrees = await services.worktrees();
    const found = await worktrees.take(records.dir(uuid), project, { files, dryRun: dry_run });
    return { pid, uuid, project, dry_run, files: found };
  },
});
