/** Requires that a person calls a method, outside of every run. */

import { SyscallError } from "../../../plugin/index.ts";
import type { Caller } from "../../connection/caller.ts";

/** Fails with PERMISSION inside a run: the action could run a program with the user's rights, or spend the user's money. */
export function requireUser(caller: Caller, toDo: string): void {
  const unit = caller.unit();
  if (unit === undefined) return;
  throw new SyscallError(
    "PERMISSION",
    `A program inside a run (${unit}) can't ${toDo}: do it from your own terminal.`,
  );
}
