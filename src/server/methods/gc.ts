/** The method gc. */

import { z } from "zod";
import type { CollectReport } from "../../protocol/methods.ts";
import { method } from "./method.ts";
import { refuseInside } from "./shared/refuse-inside.ts";

/** Removes ended runs of all projects beyond the limits of config.yaml. Inside a run it only reports. */
export const gc = method({
  payload: () => z.object({ dry_run: z.boolean().optional() }),
  async handle({ dry_run: dryRun = false }, { collector }, caller): Promise<CollectReport> {
    if (!dryRun) refuseInside(caller, insideRun);
    return (await collector()).collect({ dryRun, signal: caller.gone });
  },
});

function insideRun(unit: string): string {
  return `Records can't be removed from inside a run (${unit}): they say what it did. Do it from your own terminal.`;
}
