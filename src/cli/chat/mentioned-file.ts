/** Looks up the files that words of a message may name. */

import { type Stats, statSync } from "node:fs";
import { errnoOf } from "../../lib/error-detail.ts";

/** null unless the path names a file. Most words are no paths: too long, through a file, or without access. */
export function fileStat(path: string): Stats | null {
  if (path.includes("\0")) return null;
  try {
    const stat = statSync(path, { throwIfNoEntry: false });
    return stat?.isFile() ? stat : null;
  } catch (error) {
    if (errnoOf(error) !== undefined) return null;
    throw error;
  }
}
