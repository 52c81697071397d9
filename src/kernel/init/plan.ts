import type { SupervisorSpec } from "../supervisor/spec.ts";
import type { MountRequest, PID, SpawnOpts } from "../types.ts";

/** What InitBoot is told: the units of one init.yaml, brought up in this order. */
export interface InitPlan {
  /** The folder of the project whose units they are; null: the user's. */
  project: string | null;
  units: readonly InitUnitPlan[];
}

export interface InitUnitPlan {
  /** Unique in its plan. */
  name: string;
  /** As people call it: "command", "mcp", "supervisor". */
  type: string;
  /** Without it the others are not kept either. */
  required: boolean;
  start: InitStart;
}

export type InitStart =
  | { kind: "supervisor"; spec: SupervisorSpec }
  /** For all processes of the project, or of the user. `opts` tells what can be mounted, and where it stands. */
  | {
      kind: "mount";
      of: "project" | "user";
      plan(signal: AbortSignal): Promise<{ request: MountRequest; opts: SpawnOpts }>;
    };

/** "waiting": those before it come first. "stopped": it has ended and nothing was wrong with that. */
export type InitState = "waiting" | "starting" | "running" | "failed" | "stopped";

/** What InitStatus tells of one unit. */
export interface InitUnitStatus {
  project: string | null;
  name: string;
  type: string;
  required: boolean;
  state: InitState;
  /** Unix ms of when it came to this state. */
  sinceMs: number;
  /** Of the supervisor; null for a mount, which is no process. */
  pid: PID | null;
  /** Of everything that the supervisor holds; null for a mount, where nobody counts them. */
  restarts: number | null;
  error: string | null;
}
