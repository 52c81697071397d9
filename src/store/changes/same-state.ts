/** Compares two states of a file. */

import type { FileState } from "./change-log.ts";

/** Whether both are the same file, as far as git distinguishes files. Content that was not kept is equal to nothing. */
export function sameState(one: FileState | null, other: FileState | null): boolean {
  if (one === null || other === null) return one === other;
  return one.kind === other.kind && one.oid !== null && one.oid === other.oid;
}
