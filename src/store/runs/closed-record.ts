/** Which records are closed: listings look at them only when the journal of changed runs names them. */

import type { ProcInfo } from "./schema.ts";

/** A closed record is not written again without an entry in the journal. All others are looked at in each listing. */
export function isClosed({ ended_at_ms, state }: Pick<ProcInfo, "ended_at_ms" | "state">): boolean {
  return ended_at_ms !== null && (state === "dead" || state === "suspended");
}
