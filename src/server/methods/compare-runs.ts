/** The method compare_runs. */

import { Target, Uuid } from "../../protocol/fields.ts";
import { type Comparison, compareRuns as compare } from "../records/compare-runs.ts";
import { method } from "./method.ts";
import { findRun, recordsOf } from "./shared/find-run.ts";

/** Compares a replayed run with the recorded one; `replayed` is its UUID. */
export const compareRuns = method({
  payload: () => Target().extend({ replayed: Uuid() }),
  async handle({ replayed, ...target }, services): Promise<Comparison> {
    const before = await recordsOf(services, await findRun(services, target));
    const after = await recordsOf(services, await findRun(services, { uuid: replayed, cwd: target.cwd }));
    return compare(before, after);
  },
});
