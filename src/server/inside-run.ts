import { readdirSync } from "node:fs";
import { type Env, userPaths } from "../config/paths.ts";
import { isMarkOf } from "../os/mark.ts";
import { marksOfLine } from "../os/origin.ts";
import { kernelFolders } from "./kernel-folders.ts";

/**
 * Whether this program was started inside a run of one of this user's kernels (design §2): its environment says so, or
 * a mark that it or one above it was born with, which stays when a shell takes RNIX_UNIT away. Who has another data folder has another
 * user's keys and trust, as far as Rnix can tell: so the tests of Rnix can be run by an agent of Rnix.
 */
export function isInsideRun(env: Env): boolean {
  if (env.RNIX_UNIT) return true;
  const marks = marksOfLine();
  if (marks.length === 0) return false;
  return kernelIds(userPaths(env).dataDir).some((id) => marks.some((mark) => isMarkOf(id, mark)));
}

/** Of those that live, and of some that were killed. */
function kernelIds(dataDir: string): string[] {
  try {
    return readdirSync(kernelFolders(dataDir).locks);
  } catch {
    return []; // No kernel has ever run here, or nobody may look: then none was started from there.
  }
}
