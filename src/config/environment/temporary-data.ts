/** The data folder of a user without a writable HOME. */

import { lstatSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { errnoOf } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/errors.ts";

/**
 * The user's data folder below a temporary folder, for a user without a writable HOME. Made 0700. Fails with PERMISSION
 * unless it belongs to this user alone, because it holds what the user trusts: another user could have made it.
 */
export function temporaryDataDir(temp: string, uid: number): string {
  const dir = join(temp, `rnix-data-${uid}`);
  try {
    mkdirSync(dir, { mode: 0o700 });
    return dir;
  } catch (cause) {
    if (errnoOf(cause) !== "EEXIST") throw noFolder(temp, cause);
  }
  const stat = lstatSync(dir);
  if (stat.isDirectory() && stat.uid === uid && (stat.mode & 0o077) === 0) return dir;
  throw new SyscallError(
    "PERMISSION",
    `${dir} belongs to user ${stat.uid} with mode ${(stat.mode & 0o777).toString(8)}: expected a folder of user ${uid} with mode 700. Remove it, or ${ADVICE}.`,
  );
}

const ADVICE = "set XDG_DATA_HOME to a folder that you can write to";

function noFolder(temp: string, cause: unknown): SyscallError {
  const why = errnoOf(cause) ?? String(cause);
  return new SyscallError(
    "UNAVAILABLE",
    `HOME can't be written, nor can the temporary folder ${temp} (${why}): Rnix has no folder for its data. Set TMPDIR, or ${ADVICE}.`,
    { cause },
  );
}
