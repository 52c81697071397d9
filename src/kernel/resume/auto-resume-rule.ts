import type { ProcInfo } from "../types.ts";

/**
 * Whether a suspended run resumes by itself when rnix starts again: one that made room for another rnix
 * does; one that a stop or a crash has cut off does when it was marked so, or has its place in an init.yaml; what
 * a person has suspended or paused never does. A child resumes with its parent, never before it.
 */
export function resumesByItself({ suspended, resume_on_restart, supervised }: ProcInfo): boolean {
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
