import type { Env } from "../../config/paths.ts";
import { isInside } from "../../os/process-owner.ts";

/**
 * Whether this program was started inside a run (design §2): its environment says so, or the system does, which a run's
 * shell can't change by other variables, folders, sessions, names or copies of the binary.
 */
export function isInsideRun(env: Env): boolean {
  return Boolean(env.RNIX_UNIT) || isInside();
}
