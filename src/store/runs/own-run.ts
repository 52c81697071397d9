/** Checks that a run is this user's own. Only such runs are resumed, changed and removed. */

import { SyscallError } from "../../plugin/index.ts";
import type { ProcInfo } from "./schema.ts";

/** The form of a UUID. It also keeps a run's folder inside the data folder. */
export const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Fails with PERMISSION for a record that this user's Rnix did not write. */
export function requireOwn({ uuid, foreign }: Pick<ProcInfo, "uuid" | "foreign">): void {
  if (foreign) throw foreignRun(uuid, "its record was not written by your Rnix");
}

/** Returns the error for a run whose file has lines of another writer. */
export function foreignLines(uuid: string, file: string, count: number): SyscallError {
  const lines = count === 1 ? "a line" : `${count} lines`;
  return foreignRun(uuid, `your Rnix did not write ${lines} of its ${file} as they are`);
}

function foreignRun(uuid: string, why: string): SyscallError {
  const message = `Run ${uuid} is foreign: ${why}. You can view it, but not resume it. \`rnix resume --adopt ${uuid}\` starts a new run with its conversation and your current permissions.`;
  return new SyscallError("PERMISSION", message);
}
