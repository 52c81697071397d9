/** A test for words that name files. */

import { statSync } from "node:fs";
import { errnoOf } from "../../lib/error-detail.ts";

/** Whether a path names a file. Most words are no paths: too long, through a file, or without access. */
export function isFile(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
  } catch (error) {
    if (errnoOf(error) !== undefined) return false;
    throw error;
  }
}
