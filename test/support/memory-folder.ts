/** A folder in memory, where a sync costs nothing: for tests that are not about the disk. */

import { existsSync, realpathSync, statfsSync } from "node:fs";
import { tmpdir } from "node:os";

const SHARED_MEMORY = "/dev/shm";
/** Containers often give less, which several test files would fill. */
const ENOUGH_BYTES = 256 * 1024 * 1024;

/** The folder for temporary files on systems that have no such place. */
export const memoryFolder = hasRoom(SHARED_MEMORY) ? SHARED_MEMORY : realpathSync(tmpdir());

function hasRoom(folder: string): boolean {
  if (!existsSync(folder)) return false;
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize >= ENOUGH_BYTES;
}
