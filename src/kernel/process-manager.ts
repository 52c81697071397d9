/** The syscalls of processes: spawn, kill, list, information. */

import type { Lazy } from "../lib/caches.ts";
import { orAborted } from "../lib/clock.ts";
import type { Signal } from "../lib/signals.ts";
import { SyscallError } from "../plugin/index.ts";
import { namedError } from "./errors/kernel-errors.ts";
import { type ChildEffects, requireEffects } from "./lifetime/child-effects.ts";
import type { Task } from "./lifetime/process-runner.ts";
import type { StartMounts } from "./lifetime/start-mounts.ts";
import type { Process } from "./process/process.ts";
import { identityOf, type ProcessIdentity } from "./process/process-info.ts";
import type { SavedRun } from "./resume/saved-run.ts";
import { assertSignal, type Disposition } from "./signal-manager.ts";
import type { Processes } from "./tiers/processes.ts";
import type { AgentInfo, ExitStatus, InheritedOpts, PID, ProcessKind, ProcInfo, SpawnOpts } from "./types.ts";

/** Characters of an intent in the trace; the record has all. */
const INTENT_SHOWN = 200;

/** `reason`: the task of an agent. */
type ProcessManagerParts = Processes & { reason: Task; startMounts: Lazy<StartMounts> };

/** Spawn, Kill, Wait, ListProcs, GetPID. */
export class ProcessManager {
  readonly #parts: ProcessManagerParts;
  #closing = false;

  constructor(parts: ProcessManagerParts) {
    this.#parts = parts;
  }

  /**
   * Creates a process and starts its reasoning. The device lease becomes the kernel's: it is released at
   * the reap, or here when the spawn fails.
   */
  spawn(intent: string, agent: AgentInfo | null, opts: SpawnOpts): Promise<PID> {
    return this.spawnTask("agent", this.#parts.reason, intent, agent, opts);
  }

  /** Fails as a spawn would for rules and limits that can't hold. Creates nothing, and the lease stays the caller's. */
  check(agent: AgentInfo, opts: SpawnOpts): void {
    this.#parts.builder.check(agent, opts);
  }

  /** A Spawn with another task than reasoning: supervisors, programs. */
  async spawnTask(
    kind: ProcessKind,
    task: Task,
    intent: string,
    agent: AgentInfo | null,
    opts: SpawnOpts,
  ): Promise<PID> {
    const { builder } = this.#parts;
    const build = (): Promise<Process> =>
      builder.build(kind, intent, agent, opts, (built) => this.#start(built));
    return this.#create("Spawn", opts, task, build);
  }

  /**
   * Creates the process of a resumed run; the caller holds the run's claim. `begun` is called when it runs, before its
   * first step.
   */
  async resume(
    saved: SavedRun,
    agent: AgentInfo | null,
    opts: SpawnOpts,
    begun: (proc: Process) => Promise<void>,
  ): Promise<PID> {
    const { builder, reason } = this.#parts;
    const build = (): Promise<Process> =>
      builder.rebuild(saved, agent, opts, async (built) => {
        await this.#startResumed(built);
        await begun(built);
      });
    return this.#create("Resume", opts, reason, build);
  }

  /**
   * Sends a signal to this process alone: if it ends, its children continue as PID 0's. No effect, and no error, when
   * the process has ended. `by` is the calling process, absent for PID 0, here and below.
   */
  kill(pid: PID, signal: Signal, by?: Process): void {
    const { table, signals, debug } = this.#parts;
    const deliver = (): Disposition | "ended" => {
      assertSignal(signal);
      const proc = table.get(pid);
      return proc.state === "zombie" || proc.state === "dead"
        ? "ended"
        : signals().deliver(proc, signal, "alone");
    };
    debug.callNow(by, pid, "Kill", { pid, signal }, deliver);
  }

  /**
   * Waits for the end and the reap. Fails with CANCELLED when the calling process itself must stop, and with INVALID
   * when it waits for itself.
   */
  async wait(pid: PID, by?: Process): Promise<ExitStatus> {
    const { table, runner, debug } = this.#parts;
    const wait = async (): Promise<ExitStatus> => {
      const proc = table.get(pid);
      if (proc === by) {
        throw new SyscallError("INVALID", `Process ${pid} can't wait for itself.`);
      }
      const exit = await (by ? orAborted(proc.done, by.signal) : proc.done);
      await runner.reap(proc);
      return exit;
    };
    const short = ({ code, reason }: ExitStatus): unknown => ({ code, reason });
    return await debug.callFor(by, undefined, "Wait", { pid }, wait, short);
  }

  /** Snapshots: they do not change with the processes. */
  listProcs(by?: Process): ProcInfo[] {
    const list = (): ProcInfo[] => this.infos();
    return this.#parts.debug.callNow(by, undefined, "ListProcs", {}, list, ({ length }) => length);
  }

  /** The snapshots of ListProcs, without a recorded syscall. */
  infos(): ProcInfo[] {
    return this.#parts.table.all().map((proc) => proc.info());
  }

  info(pid: PID): ProcInfo {
    return this.#parts.table.get(pid).info();
  }

  /** The facts of `info` that are fixed for the life of a process. It costs much less. */
  identity(pid: PID): ProcessIdentity {
    return identityOf(this.#parts.table.get(pid));
  }

  /** Live processes. */
  get count(): number {
    return this.#parts.table.size;
  }

  /** The live process with this UUID, or with a prefix that only one UUID has. */
  findPid(uuidOrPrefix: string): PID | undefined {
    return this.#parts.table.findByUuid(uuidOrPrefix)?.pid;
  }

  /** What a child inherits: the current provider with its remaining fallbacks, the environment, the folders. */
  inherited(pid: PID): InheritedOpts {
    const { spec, model } = this.#parts.table.get(pid);
    const { base, project, confinement, effort, env, pluginKeys, boundSecrets, envGiven, cwd, folders } =
      spec.opts;
    const { attended, detached, outputs, verdicts } = spec.opts;
    return {
      base,
      project,
      confinement,
      provider: spec.opts.provider && { ...model.provider, fallbacks: [...model.fallbacks] },
      effort,
      env,
      pluginKeys,
      boundSecrets,
      envGiven,
      cwd,
      folders,
      attended,
      detached,
      outputs,
      verdicts,
    };
  }

  /** Fails with PERMISSION for an effect that this process may not have on behalf of a child. */
  requireEffects(pid: PID, effects: ChildEffects): void {
    requireEffects(this.#parts.table.get(pid), effects, this.#parts.guarded);
  }

  /** Writes a process's buffered events. Fails with EXHAUSTED or UNAVAILABLE when the disk rejects them. */
  flushEvents(pid: PID): void {
    this.#parts.table.get(pid).record.flush();
  }

  getPid(proc: Process): PID {
    return this.#parts.debug.callNow(proc, proc, "GetPID", {}, () => proc.pid);
  }

  /** The kernel is shutting down. */
  get isClosing(): boolean {
    return this.#closing;
  }

  /** Refuses new processes from now on. */
  close(): void {
    this.#closing = true;
  }

  async #create(
    syscall: "Spawn" | "Resume",
    opts: SpawnOpts,
    task: Task,
    build: () => Promise<Process>,
  ): Promise<PID> {
    try {
      if (this.#closing) {
        opts.devices.release();
        const message = "The kernel is shutting down and accepts no new processes. Try again in a moment.";
        throw new SyscallError("UNAVAILABLE", message);
      }
      const proc = await build();
      this.#parts.runner.begin(proc, proc.toolset.preparation ? this.#afterMounts(task) : task);
      return proc.pid;
    } catch (thrown) {
      throw this.#failed(syscall, opts, namedError(thrown, syscall, 0));
    }
  }

  #afterMounts(task: Task): Task {
    return async (proc) => (await this.#parts.startMounts().prepare(proc)) ?? task(proc);
  }

  /** A failed spawn has no process: the parent's record, or PID 0's trace, has the event. */
  #failed(syscall: "Spawn" | "Resume", opts: SpawnOpts, error: SyscallError): SyscallError {
    const { debug, table } = this.#parts;
    const parent = opts.parentPid ? table.find(opts.parentPid) : undefined;
    debug.failed(undefined, parent, syscall, { provider: opts.provider?.name ?? "" }, error);
    return error;
  }

  async #startResumed(proc: Process): Promise<void> {
    const { originUuid } = proc.spec;
    const args = {
      uuid: proc.uuid,
      step: proc.run.recordedStep,
      provider: proc.model.provider.name,
      ...(originUuid && { origin: originUuid }),
    };
    await this.#run(proc, "Resume", args);
  }

  async #start(proc: Process): Promise<void> {
    const { intent, agent } = proc.spec;
    const args = {
      intent: intent.slice(0, INTENT_SHOWN),
      agent: agent.name,
      provider: proc.model.provider.name,
      model: proc.model.provider.model,
    };
    await this.#run(proc, "Spawn", args);
  }

  async #run(proc: Process, syscall: "Spawn" | "Resume", args: Record<string, unknown>): Promise<void> {
    const { callbacks, debug, table, watchers } = this.#parts;
    await debug.call(proc, syscall, args, () => {
      proc.start();
      // A program of a paused process may still spawn: the child stays paused until its parent continues.
      if (table.find(proc.family.ppid)?.paused) proc.pause();
      proc.record.info(proc.info());
      return proc.pid;
    });
    callbacks?.onSpawn(proc.pid, proc.spec.intent, proc.model.provider.name, proc.model.provider.model);
    watchers.begun(proc);
  }
}
