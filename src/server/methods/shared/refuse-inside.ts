/** Refuses methods that a program inside a run may not call. */

import { SyscallError } from "../../../plugin/index.ts";
import type { Caller } from "../../connection/connection.ts";
import { untyped } from "../../daemon/inside-run.ts";

/** Fails with PERMISSION inside a run, with this message. */
export function refuseInside(caller: Caller, message: (unit: string) => string): void {
  const unit = caller.unit();
  if (unit !== undefined) throw new SyscallError("PERMISSION", message(unit));
}

/** The action could run a program with the user's rights, or spend the user's money. */
export function requireUser(caller: Caller, toDo: string): void {
  refuseInside(
    caller,
    (unit) => `A program inside a run (${unit}) can't ${toDo}: do it from your own terminal.`,
  );
}

/** Fails with PERMISSION when a service has started the client, which a run may have asked for it. */
export function requireTyped(caller: Caller): void {
  const service = caller.service();
  if (service !== null) throw untyped(service);
}

/** No run answers the questions that are asked of a person. */
export function refuseQuestions(caller: Caller): void {
  refuseInside(
    caller,
    (unit) =>
      `Questions can't be listed or answered from inside a run (${unit}): they are asked of a person. Use your own terminal.`,
  );
}
