/** A test for programs that were started inside a run. */

import type { Env } from "../../config/paths.ts";
import { isInside } from "../../os/process-owner.ts";

/**
 * Whether this program was started inside a run (design §2), by its environment or by what the system shows. A run's
 * shell can't change the latter by other variables, folders, sessions, names or copies of the binary.
 */
export function isInsideRun(env: Env): boolean {
  return Boolean(env.RNIX_UNIT) || isInside();
}
