/** The types of an init plan: its units and their states. */

import type { SupervisorSpec } from "../supervisor/spec.ts";
import type { MountRequest, PID, SpawnOpts } from "../types.ts";

/** The input of InitBoot: the units of one init.yaml, in the order of their start. */
export interface InitPlan {
  /** The folder of the units' project; null for the user's units. */
  project: string | null;
  units: readonly InitUnitPlan[];
}

export interface InitUnitPlan {
  /** Unique in its plan. */
  name: string;
  /** As users call it: "command", "mcp", "supervisor". */
  type: string;
  /** If it does not start, the other units are stopped too. */
  required: boolean;
  start: InitStart;
}

export type InitStart =
  | { kind: "supervisor"; spec: SupervisorSpec }
  /** A mount for all processes of the project, or of the user. `opts` says what can be mounted. */
  | {
      kind: "mount";
      of: "project" | "user";
      plan(signal: AbortSignal): Promise<{ request: MountRequest; opts: SpawnOpts }>;
    };

/** "waiting": earlier units start first. "stopped": it has ended without a failure. */
export type InitState = "waiting" | "starting" | "running" | "failed" | "stopped";

/** One unit as InitStatus returns it. */
export interface InitUnitStatus {
  project: string | null;
  name: string;
  type: string;
  required: boolean;
  state: InitState;
  /** When it reached this state, in Unix ms. */
  sinceMs: number;
  /** Of the supervisor; null for a mount, which has no process. */
  pid: PID | null;
  /** Restarts of all children of the supervisor; null for a mount. */
  restarts: number | null;
  error: string | null;
}
