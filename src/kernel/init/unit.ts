/** The units of init.yaml: what is planned, and how one is started, watched and stopped. */

import type { Lazy } from "../../lib/caches.ts";
import { orAborted, withDeadline, withTimeout } from "../../lib/clock.ts";
import { messageOf } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { MountScope } from "../mount-manager.ts";
import type { Process } from "../process/process.ts";
import { planned } from "../supervisor/child-process.ts";
import type { SupervisorSpec } from "../supervisor/spec.ts";
import type { SupervisorManager } from "../supervisor-manager.ts";
import type { Agents } from "../tiers/agents.ts";
import type { ExitStatus, MountRequest, PID, SpawnOpts } from "../types.ts";

export type InitParts = Agents & { supervisors: Lazy<SupervisorManager> };

const START_MS = 60_000;
/** A required unit has not started if a child of it ends within this time. */
const SETTLE_MS = 200;

/** A service or supervisor of an init.yaml, from its start to its end. */
export class InitUnit {
  readonly plan: InitUnitPlan;
  readonly #project: string | null;
  readonly #parts: InitParts;
  #state: InitState = "waiting";
  #since: number;
  #error: string | null = null;
  #closing: AbortSignal | undefined;
  /** The process of the unit's supervisor, also after its end. */
  process: Process | undefined;
  #mounted: { scope: MountScope; path: string } | undefined;

  constructor(plan: InitUnitPlan, project: string | null, parts: InitParts) {
    this.plan = plan;
    this.#project = project;
    this.#parts = parts;
    this.#since = parts.clock.now();
  }

  get isUp(): boolean {
    return this.#state === "starting" || this.#state === "running";
  }

  status(): InitUnitStatus {
    const { name, type, required } = this.plan;
    const down = this.#state === "running" ? this.#down() : null;
    return {
      project: this.#project,
      name,
      type,
      required,
      state: down === null ? this.#state : "failed",
      sinceMs: this.#since,
      pid: this.process?.pid ?? null,
      restarts: this.#restarts(),
      error: down ?? this.#error,
    };
  }

  /**
   * Starts the unit, or throws why it did not start and undoes the start. The signal, the end of the kernel, cancels it.
   */
  async start(signal: AbortSignal): Promise<void> {
    this.#closing = signal;
    const late = `It did not come up within ${START_MS / 1000} s.`;
    this.#become("starting");
    await withDeadline(this.#parts.clock, signal, START_MS, late, async (limited) => {
      try {
        await this.#bringUp(this.plan.start, limited);
        if (this.plan.required) await this.#settle(limited);
        if (this.#state === "starting") this.#become("running");
      } catch (thrown) {
        const why: unknown = limited.aborted ? limited.reason : thrown;
        await this.stop();
        this.#become("failed", messageOf(why));
        throw why;
      }
    });
  }

  /** Ends it in order and logs failures. With a status its agents are suspended, not terminated. */
  async stop(status?: ExitStatus): Promise<void> {
    const { supervisors, mounts, log } = this.#parts;
    const proc = this.process;
    const mounted = this.#mounted;
    if (this.isUp || this.#state === "waiting") this.#become("stopped");
    this.#mounted = undefined;
    try {
      if (mounted) await mounts.unmountShared(mounted.scope, mounted.path);
      if (proc && !proc.exit)
        await this.#endOf(proc, supervisors().stopSupervisor(proc.pid, undefined, status));
    } catch (thrown) {
      log("warn", this.#label(), `it did not end well: ${messageOf(thrown)}`);
    }
  }

  async #bringUp(start: InitStart, signal: AbortSignal): Promise<void> {
    const { supervisors, mounts, table, clock } = this.#parts;
    if (start.kind === "supervisor") {
      this.process = table.get(await supervisors().spawnSupervisor(start.spec, signal));
      void this.process.done.then((exit) => this.#ended(exit));
      return;
    }
    const { request, opts } = await planned(clock, signal, start.plan);
    const { project, devices, env } = opts;
    const scope: MountScope = { of: start.of, project, devices, env };
    this.#mounted = { scope, path: await mounts.mountShared(scope, request, signal) };
  }

  /** A program that ends at once has not started, though its supervisor would restart it. */
  async #settle(signal: AbortSignal): Promise<void> {
    const proc = this.process;
    if (!proc) return;
    await orAborted(withTimeout(this.#parts.clock, SETTLE_MS, proc.done), signal);
    const failed = await this.#failedChild(proc, signal);
    signal.throwIfAborted();
    if (failed)
      throw new SyscallError("UNAVAILABLE", `${failed.id} ended as it started: ${wordsOf(failed.exit)}`);
    if (proc.exit && proc.exit.code !== 0) throw new SyscallError("UNAVAILABLE", wordsOf(proc.exit));
  }

  /** Waits for programs that have ended by now: on a busy machine Bun reports their end late. */
  async #failedChild(
    supervisor: Process,
    signal: AbortSignal,
  ): Promise<{ id: string; exit: ExitStatus } | undefined> {
    const { supervisors, table, children } = this.#parts;
    for (const { id, kind, pid, exit } of supervisors().childrenOf(supervisor)) {
      const child = kind === "command" && pid !== null ? table.find(pid) : undefined;
      const hasEnded = child !== undefined && !(await children.isRunning(child.uuid));
      const end = hasEnded ? await orAborted(child.done, signal) : exit;
      if (end && end.code !== 0) return { id, exit: end };
    }
    return undefined;
  }

  /** A unit that has just ended by itself needs no stop. */
  async #endOf(proc: Process, stopping: Promise<ExitStatus>): Promise<void> {
    try {
      await stopping;
    } catch (thrown) {
      if (!(thrown instanceof SyscallError) || (thrown.code !== "CLOSED" && thrown.code !== "NOT_FOUND"))
        throw thrown;
      await proc.done;
    }
  }

  #ended(exit: ExitStatus): void {
    // The end is expected, because the unit was stopped.
    if (!this.isUp) return;
    const well = exit.code === 0 || this.#closing?.aborted === true;
    this.#become(well ? "stopped" : "failed", well ? null : wordsOf(exit));
    this.#parts.log(well ? "info" : "warn", this.#label(), `it has ended: ${wordsOf(exit)}`);
  }

  /** Why the mount can't be used now. */
  #down(): string | null {
    if (!this.#mounted) return null;
    const { scope, path } = this.#mounted;
    return this.#parts.mounts.listShared(scope).find((one) => one.path === path)?.down ?? null;
  }

  #restarts(): number | null {
    if (this.plan.start.kind === "mount") return null;
    if (!this.process) return 0;
    const children = this.#parts.supervisors().childrenOf(this.process);
    return children.reduce((sum, { restarts }) => sum + restarts, 0);
  }

  #become(state: InitState, error: string | null = null): void {
    this.#state = state;
    this.#since = this.#parts.clock.now();
    this.#error = error;
  }

  #label(): string {
    return `init ${this.#project ?? "of the user"}, ${this.plan.type} ${this.plan.name}`;
  }
}

function wordsOf({ code, reason, error }: ExitStatus): string {
  return `${reason} (${code})${error ? `. ${error.message}` : ""}`;
}

/** The input of InitBoot: the units of one init.yaml, in the order of their start. */
export interface InitPlan {
  /** The folder of the units' project; null for the user's units. */
  project: string | null;
  units: readonly InitUnitPlan[];
}

export interface InitUnitPlan {
  /** Unique in its plan. */
  name: string;
  /** The word that users know: "command", "mcp", "supervisor". */
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
  /** The PID of the supervisor; null for a mount, which has no process. */
  pid: PID | null;
  /** Restarts of all children of the supervisor; null for a mount. */
  restarts: number | null;
  error: string | null;
}
