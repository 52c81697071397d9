/** Decides which suspended runs resume by themselves. */

import type { ProcInfo } from "../types.ts";

/**
 * Whether a suspended run resumes by itself when rnix starts again. A run that was suspended for another rnix does. A
 * run that a stop or a crash interrupted does if it was marked so or belongs to an init.yaml. A run that the user
 * suspended or paused never does, nor does one that waited for a message. A child resumes with its parent, never before it.
 */
export function resumesByItself({ suspended, resume_on_restart, supervised }: ProcInfo): boolean {
  if (suspended?.wake.on === "message" && suspended.cause !== "crash") return false;
  switch (suspended?.cause) {
    case "restart":
      return true;
    case "stop":
    case "crash":
      return resume_on_restart || supervised !== null;
    default:
      return false;
  }
}
