/** The errors of supervisors. */

import { messageOf } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { PID } from "../types.ts";
import type { SupervisorSpec } from "./spec.ts";

export function startError(supervisor: string, child: string, thrown: unknown): SyscallError {
  return new SyscallError(
    thrown instanceof SyscallError ? thrown.code : "INTERNAL",
    `Supervisor ${supervisor}: its child ${child} did not start: ${messageOf(thrown)}`,
    { cause: thrown },
  );
}

export function tooManyError(pid: PID, { name, intensity, periodMs }: SupervisorSpec): SyscallError {
  return new SyscallError(
    "EXHAUSTED",
    `Supervisor ${name} gave up: its children needed more than ${intensity} restarts within ${periodMs / 1000} s. \`rnix strace ${pid}\` shows how they ended.`,
  );
}

export function endingError(pid: PID): SyscallError {
  return new SyscallError("CLOSED", `Supervisor ${pid} is ending and starts nothing.`);
}

export function pausedError(pid: PID): SyscallError {
  return new SyscallError(
    "UNAVAILABLE",
    `Supervisor ${pid} is paused and starts nothing. Continue it first: \`rnix continue ${pid}\`.`,
  );
}

export function unknownChildError(pid: PID, id: string, known: readonly string[]): SyscallError {
  return new SyscallError(
    "NOT_FOUND",
    `Supervisor ${pid} has no child ${id}. Its children are: ${known.join(", ")}.`,
  );
}
