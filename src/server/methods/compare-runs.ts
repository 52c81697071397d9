import { Target, Uuid } from "../../protocol/fields.ts";
import type { Difference } from "../../protocol/methods.ts";
import { compareRuns as differencesOf } from "../records/compare-runs.ts";
import { method } from "./method.ts";
import { findRun, recordsOf } from "./shared/find-run.ts";

/** Compares a replayed run with the recorded one; `replayed` is its UUID. */
export const compareRuns = method({
  payload: () => Target().extend({ replayed: Uuid() }),
  async handle({ replayed, ...target }, services): Promise<{ differences: Difference[] }> {
    const before = await recordsOf(services, await findRun(services, target));
    const after = await recordsOf(services, await findRun(services, { uuid: replayed, cwd: target.cwd }));
    return { differences: await differencesOf(before, after) };
  },
});
