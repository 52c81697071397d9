/** A Worker's limits with as much time for a plugin to load as a busy machine needs. */
export const PATIENT = { loadMs: 60_000 };
