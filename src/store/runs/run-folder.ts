/** Guards the folder of a run before it is written to: no link leads out of it, and one process at a time resumes it. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { errnoOf } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import { CHANGES, SNAPSHOTS } from "../changes/object-store.ts";
import { isLink } from "../files/data-dir.ts";
import { FileLock } from "../files/file-lock.ts";
import { type FsPort, ioError, realFs, withFile } from "../files/fs-port.ts";
import { RESULTS } from "./blob-store.ts";
import { EVENTS, INBOX, INFO, JOURNAL, META, SPILL, STEPS, UNIT_OUTPUT, UNITS } from "./run-files.ts";

/** Files that are written in place, so no other name may share them. Symbolic links in their place are never opened. */
const FILES = [INFO, META, STEPS, JOURNAL, EVENTS, INBOX, CHANGES, UNITS];
const FOLDERS = [RESULTS, SPILL, SNAPSHOTS, UNIT_OUTPUT, "plugins"];

/**
 * Checks an existing run's folder before it is written to. Fails with INVALID when a write would go elsewhere: through
 * a link to a folder, or into a file with a second name.
 */
export function requirePlainRun(dir: string, fs: FsPort): void {
  requireClaimable(dir, fs);
  for (const name of FOLDERS) requireNoLinkAt(join(dir, name), fs);
  for (const name of FILES) requireOneName(join(dir, name), fs);
}

/** Makes the same check for the files that a claim touches. */
export function requireClaimable(dir: string, fs: FsPort): void {
  requireNoLinkAt(dir, fs);
  requireOneName(join(dir, CLAIM), fs);
}

function requireNoLinkAt(path: string, fs: FsPort): void {
  if (fs.stat(path)?.isLink) throw isLink(path);
}

function requireOneName(path: string, fs: FsPort): void {
  const found = fs.stat(path);
  if (found && !found.isFolder && found.names > 1) {
    const message = `${path} has a second name (a hard link), so writing to it would change another file. Replace it with a copy.`;
    throw new SyscallError("INVALID", message);
  }
}

/** The lock file in the folder of a run that is about to be resumed. */
export const CLAIM = "resume.lock";

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
    return withFile(realFs, join(dir, CLAIM), "read", (fd) => Number(readFileSync(fd, "utf8")) || null);
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return null;
    throw ioError(error, `read who has claimed run ${uuid}`, dir);
  }
}
