/** The lock that a process takes before it resumes a run. */

import { closeSync, constants, readFileSync } from "node:fs";
import { join } from "node:path";
import { errnoOf } from "../../lib/error-detail.ts";
import { FileLock } from "../files/file-lock.ts";
import { ioError, openPlain } from "../files/fs-port.ts";

/** The lock file in the folder of a run that is about to be resumed. */
export const CLAIM = "resume.lock";

const { O_NOFOLLOW, O_RDONLY } = constants;

/** Claims a run across all kernels; null when another process has claimed it. */
export function claimRun(uuid: string, dir: string): FileLock | null {
  const lock = FileLock.tryAcquire(join(dir, CLAIM));
  try {
    // Another process that fails to claim the run reads this PID.
    lock?.write(String(process.pid));
    return lock;
  } catch (error) {
    const why = ioError(error, `claim run ${uuid}`, dir);
    // On a full disk the claim works without the PID, so that the run can be removed.
    if (why.code === "EXHAUSTED") return lock;
    lock?.release();
    throw why;
  }
}

/** Returns the system PID of the claimant; null when the run is not claimed or the PID is not recorded. */
export function claimantOf(uuid: string, dir: string): number | null {
  try {
    const fd = openPlain(join(dir, CLAIM), O_RDONLY | O_NOFOLLOW);
    try {
      return Number(readFileSync(fd, "utf8")) || null;
    } finally {
      closeSync(fd);
    }
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return null;
    throw ioError(error, `read who has claimed run ${uuid}`, dir);
  }
}
