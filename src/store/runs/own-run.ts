import { SyscallError } from "../../plugin/index.ts";
import type { ProcInfo } from "./schema.ts";

/** Which runs are this user's own: only these are resumed, changed and removed. */

/** What bun's and every other UUID looks like; also keeps a run's folder inside ours. */
export const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** PERMISSION for a record that this user's Rnix has not written. */
export function requireOwn({ uuid, foreign }: Pick<ProcInfo, "uuid" | "foreign">): void {
  if (foreign) throw foreignRun(uuid, "its record was not written by your Rnix");
}

/** The same for one that has lines of another writer. */
export function foreignLines(uuid: string, file: string, count: number): SyscallError {
  const lines = count === 1 ? "a line" : `${count} lines`;
  return foreignRun(uuid, `your Rnix did not write ${lines} of its ${file} as they are`);
}

export function foreignRun(uuid: string, why: string): SyscallError {
  return new SyscallError(
    "PERMISSION",
    `Run ${uuid} is foreign: ${why}. It can be looked at, not resumed. \`rnix resume --adopt ${uuid}\` begins a new run with its conversation, under today's rights.`,
  );
}
