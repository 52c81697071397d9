/** Notifies what a job names for failures and silence. */

import type { JobEvent } from "../../cron/ports.ts";
import type { Logger } from "../../lib/logger.ts";
import type { Notifier } from "../notify/notifier.ts";

export function notifyOf(
  { event, job, row, reason }: JobEvent,
  { notifier, logger }: { notifier: () => Pick<Notifier, "notify">; logger: Logger },
): void {
  logger.warn(`job ${job.name}`, `${event}: ${reason}`);
  const target = event === "silent" ? job.on_silence : job.on_failure;
  if (target === undefined) return;
  const about = { event: `job_${event}`, job: job.name, project: job.project, reason, row };
  notifier().notify({ target, cwd: job.project }, about);
}
