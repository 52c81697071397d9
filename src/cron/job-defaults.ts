/** The policies of scheduled jobs. */

/** The policies of a job that names none. */
export const JOB_DEFAULTS = {
  overlap: "skip",
  misfire: "one",
  graceMs: 60_000,
  pauseAfter: 5,
  debounceMs: 2000,
  ifTimeoutMs: 60_000,
} as const;
