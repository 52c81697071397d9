import type { Process } from "../process/process.ts";
import type { ExitStatus, PID } from "../types.ts";
import type { RestartDelays } from "./restart-policy.ts";
import { type ChildSpec, type RestartPolicy, restartOf } from "./spec.ts";

/** Where a child stands. "ended": for good, as its policy has it; "suspended": its run is to be gone on with. */
type ChildState = "new" | "running" | "waiting" | "suspended" | "ended";

/** What SupervisorChildren tells of one. */
export interface SupervisedChild {
  id: string;
  kind: ChildSpec["start"]["kind"];
  restart: RestartPolicy;
  state: ChildState;
  pid: PID | null;
  uuid: string | null;
  /** Times it was started after the first. */
  restarts: number;
  /** Of one that waits; null as long as those that fell with it are being ended. */
  restartInMs: number | null;
  /** How its last process ended. */
  exit: ExitStatus | null;
}

/** The place of one child in its supervisor: processes come and go in it. */
export interface Slot {
  readonly spec: ChildSpec;
  readonly delays: RestartDelays;
  state: ChildState;
  proc: Process | undefined;
  /** The run of its last process: while it is suspended, the one that comes back. */
  uuid: string | undefined;
  /** Of the supervisor's clock. */
  startedAt: number;
  starts: number;
  exit: ExitStatus | undefined;
}

export function slotOf(spec: ChildSpec, delays: RestartDelays): Slot {
  return {
    spec,
    delays,
    state: "new",
    proc: undefined,
    uuid: undefined,
    startedAt: 0,
    starts: 0,
    exit: undefined,
  };
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

/** Down, and neither for good nor because somebody laid it down. As in OTP those that were done start again, too. */
export function comesBack({ state, spec }: Slot): boolean {
  return state === "waiting" || (state === "ended" && restartOf(spec) !== "temporary");
}

/** Why a child that ended by itself like this is not started again, and what becomes of it. */
export function keptDown(
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

/** What becomes of a child that was ended because a sibling fell. */
export function fallenState({ spec, exit }: Slot): ChildState {
  if (exit?.reason === "suspended") return "suspended";
  return restartOf(spec) === "temporary" ? "ended" : "waiting";
}
