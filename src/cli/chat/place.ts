/** Where a conversation works, for the status line: its folder, and the branch of git. */

import { basename, dirname, join, resolve } from "node:path";
import { readRegularSync } from "../../lib/regular-file.ts";

const MAX_BYTES = 4096;
const HASH = 7;

/** Such as `project (main)`. Read for each frame, because the branch may change at any time. */
export function placeOf(cwd: string, home: string): string {
  const folder = cwd === home ? "~" : basename(cwd) || cwd;
  const branch = branchAt(cwd);
  return branch === null ? folder : `${folder} (${branch})`;
}

/** The branch that is checked out, or the beginning of the commit; null outside of a repository. */
function branchAt(cwd: string): string | null {
  for (let dir = cwd; ; dir = dirname(dir)) {
    const git = join(dir, ".git");
    // A work tree of another repository has a file that names its folder.
    const elsewhere = /^gitdir: (.+)/.exec(textOf(git))?.[1];
    const head = textOf(join(elsewhere === undefined ? git : resolve(dir, elsewhere), "HEAD")).trim();
    if (head !== "") return /^ref: refs\/heads\/(.+)$/.exec(head)?.[1] ?? head.slice(0, HASH);
    if (dir === dirname(dir)) return null;
  }
}

/** "" for what is no file or can't be read: the status line does without it. */
function textOf(path: string): string {
  try {
    return readRegularSync(path, MAX_BYTES).toString();
  } catch {
    return "";
  }
}
