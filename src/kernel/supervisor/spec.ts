import type { ExecRequest } from "../../plugin/index.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { AgentInfo, SpawnOpts } from "../types.ts";
import type { Backoff } from "./restart-policy.ts";

/** Who comes back when a child has fallen: it alone, all of them, or it and those that started after it. */
export type Strategy = "one_for_one" | "one_for_all" | "rest_for_one";

/**
 * When a child is started again: always; after an end with another exit code than 0; never. One that was
 * suspended (75) is started again by none of them: its run is to be gone on with.
 */
export type RestartPolicy = "permanent" | "transient" | "temporary";

/** How a child is ended: at once, or asked and given so many ms. "infinity" is for supervisors alone. */
export type Shutdown = number | "brutal_kill" | "infinity";

/** Everything of a plan is read anew at each start; it gives up when the signal is aborted. */
type Plan<T> = (signal: AbortSignal) => Promise<T>;

export type ChildStart =
  | {
      kind: "agent";
      plan: Plan<{ intent: string; agent: AgentInfo | null; opts: SpawnOpts }>;
      /** The run of before, which was cut off in this place: it is gone on with instead of a new one. */
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

/** What SpawnSupervisor is told (seeds 8.6). Started in the order of `children`, ended in reverse. */
export interface SupervisorSpec {
  name: string;
  strategy: Strategy;
  /** More restarts than this within `periodMs`, and it gives up. */
  intensity: number;
  periodMs: number;
  children: readonly ChildSpec[];
  /** Between restarts; absent: what follows from the limit (`rulesFor`). */
  backoff?: Backoff;
  /** What its own process is built with. Limits that nobody spoke of it has none. */
  opts: Plan<SpawnOpts>;
}

/** How long a child that was asked to end may take (interfaces §1, "grace after TERM"). */
const DEFAULT_SHUTDOWN_MS = 10_000;

export function shutdownOf({ shutdown, start }: ChildSpec): Shutdown {
  return shutdown ?? (start.kind === "supervisor" ? "infinity" : DEFAULT_SHUTDOWN_MS);
}

export function restartOf({ restart }: ChildSpec): RestartPolicy {
  return restart ?? "permanent";
}

/** INVALID for a specification that could not be kept, nested ones included. */
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
      throw wrong(
        `child ${child.id} may not take for ever to end: only a supervisor's shutdown is "infinity"`,
      );
    }
    if (typeof child.shutdown === "number" && !(child.shutdown >= 0)) {
      throw wrong(`child ${child.id}: expected a shutdown of 0 ms or more, and got ${child.shutdown}`);
    }
    if (child.start.kind === "supervisor") checkSpec(child.start.spec);
  }
}
