/** The specification of a supervisor and its children, and its check. */

import type { ExecRequest } from "../../plugin/index.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { AgentInfo, SpawnOpts } from "../types.ts";
import type { Backoff } from "./restart-policy.ts";

/** Which children restart after a failure: the child alone, all, or it and the children started after it. */
export type Strategy = "one_for_one" | "one_for_all" | "rest_for_one";

/**
 * When a child is restarted: always; after an exit code other than 0; never. A suspended child (75) is never restarted,
 * because its run will be resumed.
 */
export type RestartPolicy = "permanent" | "transient" | "temporary";

/** How a child is ended: killed at once, or after a grace in ms. "infinity" is for supervisors only. */
export type Shutdown = number | "brutal_kill" | "infinity";

/** Read again at each start; the signal cancels it. */
type Plan<T> = (signal: AbortSignal) => Promise<T>;

export type ChildStart =
  | {
      kind: "agent";
      plan: Plan<{ intent: string; agent: AgentInfo | null; opts: SpawnOpts }>;
      /** A run of this child that was cut off: it is resumed instead of a new run. */
      before?: Plan<{ uuid: string; agent: AgentInfo | null; opts: SpawnOpts } | undefined>;
    }
  | { kind: "supervisor"; spec: SupervisorSpec }
  /** A program that runs as a process of its own; its folder and environment are those of `opts`. */
  | { kind: "command"; plan: Plan<{ request: CommandRequest; opts: SpawnOpts }> };

export type CommandRequest = Pick<ExecRequest, "argv" | "cwd" | "env" | "maxOutput">;

export interface ChildSpec {
  /** Unique in its supervisor. */
  id: string;
  /** Absent: permanent. */
  restart?: RestartPolicy;
  /** Absent: 10 s, and "infinity" for a supervisor. */
  shutdown?: Shutdown;
  start: ChildStart;
}

/** The input of SpawnSupervisor. Children start in order and end in reverse. */
export interface SupervisorSpec {
  name: string;
  strategy: Strategy;
  /** The supervisor gives up after more restarts than this within `periodMs`. */
  intensity: number;
  periodMs: number;
  children: readonly ChildSpec[];
  /** Delays between restarts; absent: the default of the limit (`rulesFor`). */
  backoff?: Backoff;
  /** Options of the supervisor's own process. It has no default limits. */
  opts: Plan<SpawnOpts>;
}

/** Default grace of a child after TERM. */
const DEFAULT_SHUTDOWN_MS = 10_000;

export function shutdownOf({ shutdown, start }: ChildSpec): Shutdown {
  return shutdown ?? (start.kind === "supervisor" ? "infinity" : DEFAULT_SHUTDOWN_MS);
}

export function restartOf({ restart }: ChildSpec): RestartPolicy {
  return restart ?? "permanent";
}

/** Fails with INVALID for an impossible specification, also a nested one. */
export function checkSpec(spec: SupervisorSpec): void {
  const wrong = (what: string): SyscallError =>
    new SyscallError("INVALID", `Supervisor ${spec.name || "without a name"}: ${what}.`);
  if (spec.name === "") throw wrong("it needs a name");
  if (!Number.isInteger(spec.intensity) || spec.intensity < 0) {
    throw wrong(`expected a whole number of restarts, 0 or more, and got ${spec.intensity}`);
  }
  if (!(spec.periodMs > 0)) throw wrong(`expected a period above 0 ms, and got ${spec.periodMs}`);
  if (spec.children.length === 0) throw wrong("it needs at least one child");
  const ids = new Set<string>();
  for (const child of spec.children) {
    if (child.id === "") throw wrong("each child needs an id");
    if (ids.has(child.id)) throw wrong(`two children have the id ${child.id}`);
    ids.add(child.id);
    if (child.shutdown === "infinity" && child.start.kind !== "supervisor") {
      throw wrong(`the shutdown of child ${child.id} can't be "infinity": only a supervisor's can`);
    }
    if (typeof child.shutdown === "number" && !(child.shutdown >= 0)) {
      throw wrong(`child ${child.id}: expected a shutdown of 0 ms or more, and got ${child.shutdown}`);
    }
    if (child.start.kind === "supervisor") checkSpec(child.start.spec);
  }
}
