/** Looks at a path that a person has typed, which may be none. */

import { type Stats, statSync } from "node:fs";
import { errnoOf } from "../../lib/error-detail.ts";

/** null where nothing is, and where it can't be reached: a name too long, a path through a file, no access, a loop. */
export function statOrNull(path: string): Stats | null {
  if (path.includes("\0")) return null;
  try {
    return statSync(path, { throwIfNoEntry: false }) ?? null;
  } catch (error) {
    if (errnoOf(error) !== undefined) return null;
    throw error;
  }
}
