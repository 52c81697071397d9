/** The jobs that have not run for longer than was expected. */

import { parseDuration } from "../../../lib/duration.ts";
import type { JobInfo } from "../../../plugin/index.ts";
import type { Services } from "../../services.ts";

/** Rows of the ledger that are looked at: the newest. */
const MAX_ROWS = 2000;

/** A job without a successful run for longer than it was expected. */
interface SilentJob {
  job_id: string;
  last_success: string | null;
}

export async function silentJobs(
  { schedules }: Pick<Services, "schedules">,
  jobs: readonly JobInfo[],
  now: number,
): Promise<SilentJob[]> {
  const silent: SilentJob[] = [];
  const expected = jobs.filter(
    ({ state, expect_every }) => state === "enabled" && expect_every !== undefined,
  );
  if (expected.length === 0) return silent;
  const rows = (await schedules?.history({ limit: MAX_ROWS, all_projects: true })) ?? [];
  for (const { id, created_at, expect_every = "1d" } of expected) {
    const success = rows.findLast((row) => row.job_id === id && row.state === "ran")?.ended ?? null;
    const since = Date.parse(success ?? created_at);
    if (now - since > parseDuration(expect_every, Number.MAX_SAFE_INTEGER))
      silent.push({ job_id: id, last_success: success });
  }
  return silent;
}
