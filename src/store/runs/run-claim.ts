import { closeSync, constants, readFileSync } from "node:fs";
import { join } from "node:path";
import { FileLock } from "../files/file-lock.ts";
import { errno, ioError, openPlain } from "../files/fs-port.ts";

/** In the folder of a run that is about to be gone on with. */
export const CLAIM = "resume.lock";

const { O_NOFOLLOW, O_RDONLY } = constants;

/** Takes the run of a folder, over all kernels: null when somebody else is about to go on with it. */
export function claimRun(uuid: string, dir: string): FileLock | null {
  const lock = FileLock.tryAcquire(join(dir, CLAIM));
  try {
    // For whoever comes second.
    lock?.write(String(process.pid));
    return lock;
  } catch (error) {
    const why = ioError(error, `take run ${uuid}`, dir);
    // On a full disk nobody is told who, and a run can be taken to be removed.
    if (why.code === "EXHAUSTED") return lock;
    lock?.release();
    throw why;
  }
}

/** The process of the system that has taken it; null when nobody has, or it has not said so. */
export function claimantOf(uuid: string, dir: string): number | null {
  try {
    const fd = openPlain(join(dir, CLAIM), O_RDONLY | O_NOFOLLOW);
    try {
      return Number(readFileSync(fd, "utf8")) || null;
    } finally {
      closeSync(fd);
    }
  } catch (error) {
    if (errno(error) === "ENOENT") return null;
    throw ioError(error, `see who has taken run ${uuid}`, dir);
  }
}
