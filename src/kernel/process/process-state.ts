/** The state machine of a process. */

import { SyscallError } from "../../plugin/index.ts";
import type { ProcessState } from "../types.ts";

/** One way only (seeds 2.2). Pausing is a gate inside Running, suspended a state on disk alone. */
const NEXT: Readonly<Record<ProcessState, ProcessState | null>> = {
  created: "running",
  running: "zombie",
  zombie: "dead",
  dead: null,
};

export function transition(pid: number, from: ProcessState, to: ProcessState): ProcessState {
  if (NEXT[from] !== to) {
    throw new SyscallError("INTERNAL", `Process ${pid} cannot go from ${from} to ${to}.`, { pid });
  }
  return to;
}
