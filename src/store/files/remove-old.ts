/** Removes what nothing has changed for a while. */

import { lstat, readdir, rm } from "node:fs/promises";
import { join } from "node:path";

/** Removes the files and folders of a folder that were changed last before this time. A missing folder has none. */
export async function removeOld(folder: string, beforeMs: number): Promise<void> {
  for (const name of await readdir(folder).catch(() => [])) {
    const path = join(folder, name);
    const found = await lstat(path).catch(() => null);
    if (found && found.mtimeMs < beforeMs) await rm(path, { recursive: true, force: true });
  }
}
