/** Compares two states of a file. */

import type { FileState } from "./change-log.ts";

/** Whether both are the same file with the same permissions. Content that was not kept is equal to nothing. */
export function sameState(one: FileState | null, other: FileState | null): boolean {
  if (one === null || other === null) return one === other;
  return one.kind === other.kind && one.oid !== null && one.oid === other.oid && sameMode(one, other);
}

/** Permissions that are not known are equal to any. */
export function sameMode(one: Pick<FileState, "mode">, other: Pick<FileState, "mode">): boolean {
  return one.mode === undefined || other.mode === undefined || one.mode === other.mode;
}
