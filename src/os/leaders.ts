/** The programs that this process has started and waits for. */

import type { ProcessTag } from "./process-tag.ts";

/**
 * By their PID, with their marks. Bun waits for them, so they are never reaped as orphans: that would take their exit
 * status from Bun. The list belongs to the whole process, which may hold several kernels.
 */
export const leaders = new Map<number, ProcessTag | null>();
