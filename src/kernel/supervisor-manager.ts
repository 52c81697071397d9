import { onceAborted } from "../lib/cancellation.ts";
import { SyscallError } from "../plugin/index.ts";
import type { LifecycleEvents } from "./lifetime/lifecycle-events.ts";
import { bareAgent } from "./process/bare-agent.ts";
import type { Process } from "./process/process.ts";
import { killed } from "./process/verdict.ts";
import type { SupervisedChild } from "./supervisor/slot.ts";
import { checkSpec, type SupervisorSpec } from "./supervisor/spec.ts";
import { planned } from "./supervisor/start-child.ts";
import { Supervisor, type SupervisorPorts } from "./supervisor/supervisor.ts";
import { type ExitStatus, type PID, SIGTERM } from "./types.ts";

/**
 * SpawnSupervisor, StopSupervisor, SupervisorChildren, RestartChild (design §2, seeds 8.6). `by` is the process
 * that calls, none is PID 0.
 */
export class SupervisorManager {
  readonly #ports: SupervisorPorts;
  /** Until its task has ended. */
  readonly #live = new Map<Process, Supervisor>();
  /** Also those that have ended, for whoever keeps their process. */
  readonly #all = new WeakMap<Process, Supervisor>();

  constructor({ events, ...ports }: Omit<SupervisorPorts, "spawnSupervisor"> & { events: LifecycleEvents }) {
    events.subscribe({
      onResumed: (proc) => this.#onResumed(proc),
      onEnded: (uuid, exit) => this.#onLost(uuid, exit),
    });
    this.#ports = {
      ...ports,
      spawnSupervisor: (spec, parentPid) => {
        const parent = ports.table.get(parentPid);
        return this.#spawn(spec, parent.signal, parent);
      },
    };
  }

  /**
   * Starts a supervisor, and its children in their order; returns when all of them run. INVALID for a
   * specification that can't be kept. When a child does not start, those before it are ended in reverse
   * order, the supervisor ends as `failed`, and its reason is thrown. The signal calls the start off.
   */
  spawnSupervisor(spec: SupervisorSpec, signal = new AbortController().signal): Promise<PID> {
    return this.#spawn(spec, signal, undefined);
  }

  /**
   * Ends a supervisor in order: its children in reverse, each asked, given its time, and then killed. Resolves
   * with its status when it is reaped. With a `status` of a suspension its agents are suspended with it.
   */
  async stopSupervisor(pid: PID, by?: Process, status?: ExitStatus): Promise<ExitStatus> {
    const { table, runner } = this.#ports;
    const stop = async (): Promise<ExitStatus> => {
      this.#supervisor(pid);
      const proc = table.get(pid);
      proc.stop(status ?? killed(SIGTERM, proc.paused));
      const exit = await proc.done;
      await runner.reap(proc);
      return exit;
    };
    return await this.#call(by, pid, "StopSupervisor", { pid }, stop, ({ reason }) => reason);
  }

  /** Its children in the order of their start, those that have ended included. */
  supervisorChildren(pid: PID, by?: Process): SupervisedChild[] {
    const { table, debug } = this.#ports;
    const list = (): SupervisedChild[] => this.#supervisor(pid).children();
    return debug.callNow(by, table.find(pid), "SupervisorChildren", { pid }, list, ({ length }) => length);
  }

  /**
   * Ends a child's process as the supervisor would, if it has one, and starts it anew; one that waits for its
   * restart is started at once, with those it waits with. Counts towards no limit. Returns the new PID, or
   * throws why it did not start: then one that ran is tried again like any other that fell.
   */
  async restartChild(pid: PID, id: string, by?: Process): Promise<PID> {
    const restart = async (): Promise<PID> => await this.#supervisor(pid).restartChild(id);
    return await this.#call(by, pid, "RestartChild", { pid, child: id }, restart, (started) => started);
  }

  /** The same for whoever only looks, and of one that has ended, too: no syscall, and so not recorded. */
  childrenOf(proc: Process): SupervisedChild[] {
    return this.#all.get(proc)?.children() ?? [];
  }

  /** Supervisors whose task has not ended. */
  get size(): number {
    return this.#live.size;
  }

  /** The run may be a suspended child of the supervisor that the new process stands below. */
  #onResumed(proc: Process): void {
    const parent = this.#ports.table.find(proc.ppid);
    if (parent) this.#live.get(parent)?.onResumed(proc);
  }

  #onLost(uuid: string, exit: ExitStatus): void {
    for (const supervisor of this.#live.values()) supervisor.onLost(uuid, exit);
  }

  async #spawn(spec: SupervisorSpec, signal: AbortSignal, parent: Process | undefined): Promise<PID> {
    checkSpec(spec);
    const { table, clock, processes, runner } = this.#ports;
    const { opts } = await planned(clock, signal, async (stop) => ({ opts: await spec.opts(stop) }));
    const started = Promise.withResolvers<void>();
    started.promise.catch(() => undefined); // Not heard when the spawn itself fails.
    const pid = await processes.spawnTask(
      "supervisor",
      (proc) => this.#run(proc, spec, started),
      spec.name,
      bareAgent("supervisor"),
      { ...opts, provider: null, parentPid: parent?.pid },
    );
    const proc = table.get(pid);
    // A parent that is told to end sees to its children itself.
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
    const supervisor = new Supervisor(proc, spec, this.#ports);
    this.#live.set(proc, supervisor);
    this.#all.set(proc, supervisor);
    try {
      return await supervisor.run(started);
    } finally {
      this.#live.delete(proc);
    }
  }

  /** Recorded with who calls: a process, or PID 0 when there is none. */
  #call<T>(
    by: Process | undefined,
    pid: PID,
    syscall: string,
    args: Record<string, unknown>,
    run: () => Promise<T>,
    result: (value: T) => unknown,
  ): Promise<T> {
    const { table, debug } = this.#ports;
    return by
      ? debug.call(by, syscall, args, run, result)
      : debug.awaitByPid0(table.find(pid), syscall, args, run, result);
  }

  #supervisor(pid: PID): Supervisor {
    const proc = this.#ports.table.get(pid);
    const supervisor = this.#live.get(proc);
    if (supervisor) return supervisor;
    if (proc.spec.kind === "supervisor") {
      throw new SyscallError("CLOSED", `Supervisor ${pid} is ending.`);
    }
    throw new SyscallError("INVALID", `Process ${pid} is no supervisor but of kind ${proc.spec.kind}.`);
  }
}
