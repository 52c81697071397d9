/** How a run stands, as listings show it. */

export const RUN_STATUSES = ["running", "paused", "suspended", "done", "failed"] as const;
