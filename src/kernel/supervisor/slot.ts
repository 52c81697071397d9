/** One child of a supervisor with its state and restarts. */

import type { Process } from "../process/process.ts";
import type { ExitStatus, PID } from "../types.ts";
import type { RestartDelays } from "./restart-policy.ts";
import { type ChildSpec, type RestartPolicy, restartOf } from "./spec.ts";

/** The state of a child. "ended": for good, by its policy; "suspended": its run will be resumed. */
type ChildState = "new" | "running" | "waiting" | "suspended" | "ended";

/** A child, as SupervisorChildren returns it. */
export interface SupervisedChild {
  id: string;
  kind: ChildSpec["start"]["kind"];
  restart: RestartPolicy;
  state: ChildState;
  pid: PID | null;
  uuid: string | null;
  /** Starts after the first. */
  restarts: number;
  /** Ms until the restart of a waiting child; null while its group is being ended. */
  restartInMs: number | null;
  /** How its last process ended. */
  exit: ExitStatus | null;
}

/** One child of a supervisor, through all its processes. */
export interface Slot {
  readonly spec: ChildSpec;
  readonly delays: RestartDelays;
  state: ChildState;
  proc: Process | undefined;
  /** The run of its last process. If it was suspended, it may be resumed. */
  uuid: string | undefined;
  /** A time of the supervisor's clock. */
  startedAt: number;
  starts: number;
  exit: ExitStatus | undefined;
}

export function slotOf(spec: ChildSpec, delays: RestartDelays): Slot {
  const none = { proc: undefined, uuid: undefined, exit: undefined };
  return { spec, delays, state: "new", startedAt: 0, starts: 0, ...none };
}

export function supervisedChild(
  { spec, state, proc, starts, exit }: Slot,
  restartInMs: number | null,
): SupervisedChild {
  return {
    id: spec.id,
    kind: spec.start.kind,
    restart: restartOf(spec),
    state,
    pid: proc?.pid ?? null,
    uuid: proc?.uuid ?? null,
    restarts: Math.max(0, starts - 1),
    restartInMs,
    exit: exit ?? null,
  };
}

/** Whether a child starts again with its group: not if it ended for good or is suspended. As in OTP, finished ones do. */
export function startsWithGroup({ state, spec }: Slot): boolean {
  return state === "waiting" || (state === "ended" && restartOf(spec) !== "temporary");
}

/** The new state of a child that is not restarted after this end, with the reason; undefined if it is restarted. */
export function notRestarted(
  { spec }: Slot,
  exit: ExitStatus,
): { state: "ended" | "suspended"; because: string } | undefined {
  const restart = restartOf(spec);
  if (exit.reason === "suspended") return { state: "suspended", because: "left alone: it was suspended" };
  if (restart === "temporary") return { state: "ended", because: "not started again: it is temporary" };
  if (restart === "transient" && exit.code === 0) {
    return { state: "ended", because: "not started again: it is done" };
  }
  return undefined;
}

/** The state of a child that was ended because a sibling failed. */
export function stateAfterStop({ spec, exit }: Slot): ChildState {
  if (exit?.reason === "suspended") return "suspended";
  return restartOf(spec) === "temporary" ? "ended" : "waiting";
}
