/** The file that a delivery writes: a link of the project must not lead it to another file of the user. */

import { existsSync, lstatSync, realpathSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { isWithin } from "../../lib/inner-path.ts";
import { SyscallError } from "../../plugin/index.ts";

/**
 * Fails with INVALID for a path in the project that leads out of it by a link: the project may have brought the link, and
 * the answer would replace a file such as a shell's start file. Links elsewhere are the user's.
 */
export function requireInside(path: string, project: string): void {
  const root = realpathSync(project);
  if (!isWithin(project, path) && !isWithin(root, path)) return;
  const real = realOf(path);
  if (real !== null && isWithin(root, real)) return;
  const message = `${path} leads out of the project by a link: name the file that it leads to, or remove the link`;
  throw new SyscallError("INVALID", message);
}

/** The real path of a file that may be missing, as may its folders; null for a link that leads to nothing. */
function realOf(path: string): string | null {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found?.isSymbolicLink() && !existsSync(path)) return null;
  if (found) return realpathSync(path);
  const folder = realOf(dirname(path));
  return folder === null ? null : join(folder, basename(path));
}
