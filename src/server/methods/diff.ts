/** The method diff. */

import { z } from "zod";
import { SyscallError } from "../../plugin/index.ts";
import { Target } from "../../protocol/fields.ts";
import type { RunDiff } from "../../protocol/methods.ts";
import { method } from "./method.ts";
import { requireDescendant } from "./shared/find-own-run.ts";
import { findRun, isLive, recordsOf, requireAgent } from "./shared/find-run.ts";

/** Returns what a run, its commands and its children changed in files. */
export const diff = method({
  payload: () =>
    Target().extend({
      /** Only the changes of this step, or of this step and later ones. */
      step: z.int().positive().optional(),
      from_step: z.int().positive().optional(),
      /** Files and folders, absolute. Absent or empty: all. */
      files: z.array(z.string().startsWith("/")).max(1000).optional(),
      patch: z.boolean().optional(),
    }),
  async handle({ step, from_step, files = [], patch = true, ...target }, services, caller): Promise<RunDiff> {
    if (step !== undefined && from_step !== undefined)
      throw new SyscallError("INVALID", "step and from_step exclude each other.");
    const found = await findRun(services, target);
    requireDescendant(services, caller.unit(), found, "looked at");
    requireAgent(found, "compared");
    if (found.live) await services.kernel.changes.refresh(found.pid);
    const run = await recordsOf(services, found);
    return (await services.changes()).diff(run, { step, fromStep: from_step, files, patch }, isLive(found));
  },
});
