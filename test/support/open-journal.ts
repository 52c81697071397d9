/** The journal of a run's open step. */

import { openStep } from "../../src/run/open-step.ts";
import type { RunRecords } from "../../src/store/runs/run-records.ts";

/** Returns the entries of the open step, and what of the file can't be read. */
export async function openJournal(runs: Pick<RunRecords, "journalLines" | "state">, uuid: string) {
  const { records, next: _, ...faults } = await runs.journalLines(uuid);
  const { recorded } = await runs.state({ uuid });
  return { entries: openStep(records, recorded), ...faults };
}
