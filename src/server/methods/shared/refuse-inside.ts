/** Refuses methods that a program inside a run may not call. */

import { SyscallError } from "../../../plugin/index.ts";
import type { Caller } from "../../connection/caller.ts";

/** Fails with PERMISSION inside a run: its questions are asked of a person. */
export function refuseInside(caller: Caller): void {
  const unit = caller.unit();
  if (unit === undefined) return;
  throw new SyscallError(
    "PERMISSION",
    `Questions can't be listed or answered from inside a run (${unit}): they are asked of a person. Use your own terminal.`,
  );
}
