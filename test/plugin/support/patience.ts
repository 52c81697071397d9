import type { WorkerLimits } from "../../../src/plugin/host/worker-link.ts";

/** As much time for a plugin to load as a busy machine needs. */
export const PATIENT: Partial<WorkerLimits> = { loadMs: 60_000 };
