/** The syscalls of supervisors. */

import { onceAborted } from "../lib/clock.ts";
import { SIGTERM } from "../lib/signals.ts";
import { SyscallError } from "../plugin/index.ts";
import type { Process } from "./process/process.ts";
import { bareAgent } from "./process/process-spec.ts";
import { killed } from "./process/verdict.ts";
import { planned, type SupervisorParts } from "./supervisor/child-process.ts";
import type { SupervisedChild } from "./supervisor/slot.ts";
import { checkSpec, type SupervisorSpec } from "./supervisor/spec.ts";
import { Supervisor } from "./supervisor/supervisor.ts";
import type { Agents } from "./tiers/agents.ts";
import type { ExitStatus, PID } from "./types.ts";

/**
 * SpawnSupervisor, StopSupervisor, SupervisorChildren, RestartChild. `by` is the calling
 * process, absent for PID 0.
 */
export class SupervisorManager {
  readonly #parts: SupervisorParts;
  /** Supervisors whose task has not ended. */
  readonly #live = new Map<Process, Supervisor>();
  /** Ended supervisors too, for callers that still hold their process. */
  readonly #all = new WeakMap<Process, Supervisor>();

  constructor(parts: Agents) {
    this.#parts = {
      ...parts,
      spawnSupervisor: (spec, parentPid) => {
        const parent = parts.table.get(parentPid);
        return this.#spawn(spec, parent.signal, parent);
      },
    };
  }

  /**
   * Starts a supervisor and its children in order; returns when all of them run. Fails with INVALID for an impossible
   * specification. When a child does not start, the earlier ones are ended in reverse order, the supervisor ends as
   * `failed`, and the child's error is thrown. The signal cancels the start.
   */
  spawnSupervisor(spec: SupervisorSpec, signal = new AbortController().signal): Promise<PID> {
    return this.#spawn(spec, signal, undefined);
  }

  /**
   * Ends a supervisor and its children in reverse order: each gets a TERM, its grace, then a KILL. Resolves with its
   * status when it is reaped. A suspension as `status` suspends its agents.
   */
  async stopSupervisor(pid: PID, by?: Process, status?: ExitStatus): Promise<ExitStatus> {
    const { debug, table, runner } = this.#parts;
    const stop = async (): Promise<ExitStatus> => {
      this.#supervisor(pid);
      const proc = table.get(pid);
      proc.stop(status ?? killed(SIGTERM, proc.paused));
      const exit = await proc.done;
      await runner.reap(proc);
      return exit;
    };
    return await debug.callFor(by, pid, "StopSupervisor", { pid }, stop, ({ reason }) => reason);
  }

  /** The children in the order of their start, ended ones too. */
  supervisorChildren(pid: PID, by?: Process): SupervisedChild[] {
    const list = (): SupervisedChild[] => this.#supervisor(pid).children();
    return this.#parts.debug.callNow(by, pid, "SupervisorChildren", { pid }, list, ({ length }) => length);
  }

  /**
   * Ends a child's process and starts the child again; a child that waits for its restart starts at once, with its
   * group. It does not count towards the restart limit. Returns the new PID, or throws why the child did not start; a
   * child that had run is then restarted like any failed one.
   */
  async restartChild(pid: PID, id: string, by?: Process): Promise<PID> {
    const args = { pid, child: id };
    const restart = (): Promise<PID> => this.#supervisor(pid).restartChild(id);
    return await this.#parts.debug.callFor(by, pid, "RestartChild", args, restart);
  }

  /** SupervisorChildren without a recorded syscall, also of an ended supervisor. */
  childrenOf(proc: Process): SupervisedChild[] {
    return this.#all.get(proc)?.children() ?? [];
  }

  /** Supervisors whose task has not ended. */
  get size(): number {
    return this.#live.size;
  }

  /** The run may be a suspended child of the supervisor that is the new process's parent. */
  onResumed(proc: Process): void {
    const parent = this.#parts.table.find(proc.family.ppid);
    if (parent) this.#live.get(parent)?.onResumed(proc);
  }

  onSuspendedEnd(uuid: string, exit: ExitStatus): void {
    for (const supervisor of this.#live.values()) supervisor.onSuspendedEnd(uuid, exit);
  }

  async #spawn(spec: SupervisorSpec, signal: AbortSignal, parent: Process | undefined): Promise<PID> {
    checkSpec(spec);
    const { table, clock, processes, runner } = this.#parts;
    const { opts } = await planned(clock, signal, async (stop) => ({ opts: await spec.opts(stop) }));
    const started = Promise.withResolvers<void>();
    started.promise.catch(() => undefined); // Not awaited when the spawn itself fails.
    const pid = await processes.spawnTask(
      "supervisor",
      (proc) => this.#run(proc, spec, started),
      spec.name,
      bareAgent("supervisor"),
      { ...opts, provider: null, parentPid: parent?.pid },
    );
    const proc = table.get(pid);
    // A parent that must stop ends its children itself.
    const ignore = parent ? undefined : onceAborted(signal, () => proc.stop(killed(SIGTERM, proc.paused)));
    try {
      await started.promise;
      return pid;
    } catch (thrown) {
      await proc.done;
      await runner.reap(proc);
      throw thrown;
    } finally {
      ignore?.();
    }
  }

  async #run(proc: Process, spec: SupervisorSpec, started: PromiseWithResolvers<void>) {
    const supervisor = new Supervisor(proc, spec, this.#parts);
    this.#live.set(proc, supervisor);
    this.#all.set(proc, supervisor);
    try {
      return await supervisor.run(started);
    } finally {
      this.#live.delete(proc);
    }
  }

  #supervisor(pid: PID): Supervisor {
    const proc = this.#parts.table.get(pid);
    const supervisor = this.#live.get(proc);
    if (supervisor) return supervisor;
    if (proc.spec.kind === "supervisor") {
      throw new SyscallError("CLOSED", `Supervisor ${pid} is ending.`);
    }
    throw new SyscallError("INVALID", `Process ${pid} is not a supervisor: its kind is ${proc.spec.kind}.`);
  }
}
