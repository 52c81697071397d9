/** The syscalls of a run's life beyond one process: checkpoint, suspend, resume. */

import type { Lazy } from "../lib/caches.ts";
import { SIGKILL, SIGPAUSE, SIGRESUME, type Signal } from "../lib/signals.ts";
import { SyscallError } from "../plugin/index.ts";
import type { Resumed, ResumeOptions } from "./agents/run-resumer.ts";
import type { InitManager } from "./init-manager.ts";
import type { ModelChoice } from "./process/live-state.ts";
import type { Process } from "./process/process.ts";
import { killed, suspendedFor } from "./process/verdict.ts";
import { resumesByItself } from "./resume/auto-resume-rule.ts";
import { type GivenAnswer, SuspendedRuns } from "./resume/suspended-runs.ts";
import type { Agents } from "./tiers/agents.ts";
import type { AgentInfo, ExitStatus, PID, ProcInfo, SpawnOpts, SuspendCause, Wake } from "./types.ts";

/** How much of a run is on disk. */
interface CheckpointInfo {
  uuid: string;
  /** The last step that a Resume would find whole. */
  step: number;
}

/** Checkpoint, Suspend, Resume, Shutdown. */
export class LifecycleManager {
  readonly #parts: LifecycleParts;
  readonly #suspended: SuspendedRuns;
  readonly #shutdown: Shutdown;

  constructor(parts: LifecycleParts) {
    this.#parts = parts;
    this.#shutdown = new Shutdown(parts);
    this.#suspended = new SuspendedRuns({
      ...parts,
      ended: (uuid, exit) => parts.events.ended(uuid, exit),
      isGone: (uuid) => this.#isGone(uuid),
    });
  }

  /**
   * Makes everything recorded of a process so far survive a power loss. `by` is the process that calls, none is
   * PID 0, here and below. NOT_FOUND when it has ended.
   */
  async checkpoint(pid: PID, by?: Process): Promise<CheckpointInfo> {
    const { table, debug } = this.#parts;
    const save = async (): Promise<CheckpointInfo> => {
      const proc = table.get(pid);
      if (proc.exit) throw new SyscallError("NOT_FOUND", `PID ${pid} has ended: its records are complete.`);
      const step = proc.run.recordedStep;
      // Written at once: a record of what runs must not be written when its end already is.
      proc.record.info(proc.info());
      await proc.record.sync();
      return { uuid: proc.uuid, step };
    };
    return await debug.callFor(by, pid, "Checkpoint", { pid }, save, ({ step }) => step);
  }

  /**
   * Ends a process so that its run can be resumed later: exit 75. A model call in progress is cancelled, and its text
   * so far is recorded. Resolves with the exit status when the record is on disk, also when the process had ended. With
   * `now`, the programs of the process and its children get no grace; so for one that is suspending already, too.
   */
  async suspend(pid: PID, o: SuspendOptions = {}): Promise<ExitStatus> {
    const { table, debug, children } = this.#parts;
    const { reason = "on request", by, now } = o;
    const wake = o.wake ?? usualWake(table.find(pid));
    const proc = debug.callNow(by, pid, "Suspend", { pid, reason, wake }, () => {
      const found = table.get(pid);
      found.stop(suspendedFor(reason, { wake }));
      if (now) for (const member of table.tree(found)) children.hurryOwner(member.uuid);
      return found;
    });
    return await proc.done;
  }

  /** False for a run that is alive in this kernel. Waits for the reap of one that has just ended. */
  async #isGone(uuid: string): Promise<boolean> {
    const here = this.#parts.table.findByUuid(uuid);
    if (here && !here.exit) return false;
    if (here) await this.#parts.resumer().gone(here);
    return true;
  }

  /** How a run ended whose last record the disk has not accepted yet. Also retries the write. */
  unrecordedEnd(uuid: string): ProcInfo | undefined {
    const { pendingRecords } = this.#parts.runner;
    const info = pendingRecords.of(uuid);
    if (info) pendingRecords.retry();
    return info;
  }

  /**
   * Replaces what a suspended run waits for, by default only for a user, and records the reason. No effect when the
   * run is not suspended. Fails with INVALID while another caller resumes it.
   */
  async setWake(uuid: string, dataDir: string, reason: string, wake: Wake = { on: "never" }): Promise<void> {
    await this.#parts.debug.callFor(undefined, undefined, "Suspend", { uuid, reason, wake }, () =>
      this.#suspended.setWake(uuid, dataDir, reason, wake),
    );
    if (wake.on !== "unit") await this.#parts.units.endParked(uuid);
  }

  /** Gives a suspended run another model or effort. Returns its record; null when it is not suspended. */
  setModel(uuid: string, dataDir: string, choice: ModelChoice): Promise<ProcInfo | null> {
    const { provider, effort } = choice;
    const args = { uuid, provider: provider?.name, model: provider?.model, effort };
    const set = (): Promise<ProcInfo | null> => this.#suspended.setModel(uuid, dataDir, choice);
    return this.#parts.debug.callFor(undefined, undefined, "SetModel", args, set);
  }

  /**
   * Stores the answer to a question that a suspended run waits for: the run takes it when it resumes. Fails with CLOSED
   * when the question was answered, NOT_FOUND when the run does not wait for it, and INVALID for an answer that does not
   * fit.
   */
  answer(uuid: string, dataDir: string, answer: GivenAnswer): Promise<void> {
    return this.#suspended.answer(uuid, dataDir, answer);
  }

  /**
   * Ends a suspended run as this signal would have ended its process. With `tree`, the children that were suspended with
   * it end first. `info` is its record, also of a run that a crash cut off. Returns how many runs ended: 0 when the run
   * is not suspended. Fails with INVALID while another caller resumes it, and for SIGPAUSE and SIGRESUME.
   */
  async endSuspended(
    info: ProcInfo,
    dataDir: string,
    signal: Signal,
    { tree = false }: { tree?: boolean } = {},
  ): Promise<number> {
    const end = async (): Promise<number> => {
      const expected = "SIGTERM, SIGINT or SIGKILL for a suspended run";
      if (signal === SIGPAUSE || signal === SIGRESUME)
        throw new SyscallError("INVALID", `Expected ${expected}, got ${signal}.`);
      return (await this.#suspended.end(info, dataDir, killed(signal, false), tree)).ended;
    };
    const args = { uuid: info.uuid, signal, tree };
    return await this.#parts.debug.callFor(undefined, undefined, "Kill", args, end);
  }

  /**
   * Resumes a run that has ended or was cut off: makes a new process with its UUID and a new PID. The conversation is
   * rebuilt from the records, and the prompt head does not change. A call with an unknown end is repeated where that is
   * harmless; otherwise the model is notified. The kernel takes over the device lease, as at a spawn.
   *
   * Fails with INVALID when the run is alive, when another caller resumes it, when it has completed and there is no
   * input, and when it is not an agent's run. Fails with PERMISSION for a foreign run. With `fork` the run may be alive.
   */
  resume(uuid: string, agent: AgentInfo | null, opts: SpawnOpts, o: ResumeOptions = {}): Promise<Resumed> {
    return this.#parts.resumer().resume(uuid, agent, opts, o);
  }

  /**
   * Suspends all processes, or kills them with `now`, and accepts no new ones. Resolves when the last is reaped; then
   * the owner of the parts closes them. `cause`: `asked` where the kernel ends with the user's command, `restart` where
   * another kernel replaces it. Running tool calls have `drainMs` to finish, and no new work begins meanwhile.
   */
  shutdown({ now = false, cause = "stop", drainMs = 0 }: ShutdownOptions = {}): Promise<void> {
    return this.#shutdown.run({ now, cause, drainMs });
  }

  /** Whether a run that the shutdown suspended resumes by itself when rnix starts again. */
  get handsOver(): boolean {
    return this.#shutdown.handsOver;
  }

  /** Tool calls under way that a shutdown with a drain waits for. */
  get callsUnderWay(): number {
    return this.#parts.drain.activeCalls;
  }
}

/** What wakes a run that the user suspends, if he does not say: a chat, his next message. */
function usualWake(proc: Process | undefined): Wake {
  return proc?.spec.opts.chat || proc?.waitsForMessage ? { on: "message" } : { on: "never" };
}

interface SuspendOptions {
  /** Shown to users. */
  reason?: string;
  /** Absent: of a chat a message, of any other run only the user's resume. */
  wake?: Wake;
  by?: Process;
  now?: boolean;
}

type LifecycleParts = Agents & { init: Lazy<InitManager> };

export interface ShutdownOptions {
  now?: boolean;
  cause?: SuspendCause;
  /** 0: running calls are cancelled at once. */
  drainMs?: number;
}

/** Ends all processes, users of a process before it. */
class Shutdown {
  readonly #parts: LifecycleParts;
  #handsOver = false;

  constructor(parts: LifecycleParts) {
    this.#parts = parts;
  }

  /** See LifecycleManager.shutdown. */
  async run({ now, cause, drainMs }: Required<ShutdownOptions>): Promise<void> {
    const { debug, drain, table } = this.#parts;
    const args = { now, cause, processes: table.size, calls: drain.activeCalls };
    const end = async (): Promise<void> => {
      this.#close();
      if (!now && drainMs > 0) await drain.settle(drainMs);
      await this.#endAll(now, cause);
    };
    await debug.callFor(undefined, undefined, "Shutdown", args, end);
  }

  /** Whether a run that the shutdown suspended resumes by itself when rnix starts again. */
  get handsOver(): boolean {
    return this.#handsOver;
  }

  /** No process is created and no unit started any more. */
  #close(): void {
    this.#parts.processes.close();
    this.#parts.init.end()?.close();
  }

  async #endAll(now: boolean, cause: SuspendCause): Promise<void> {
    const { table, runner, children, mounts, init } = this.#parts;
    // Units of init.yaml end after the processes that may use them.
    const all = table.all();
    const live = all.filter((proc) => now || !init.made?.owns(this.#rootOf(proc)));
    for (const proc of live) {
      // The supervisor ends its children, in its own order.
      if (!now && this.#isSupervised(proc)) continue;
      proc.stop(now ? killed(SIGKILL, proc.paused) : suspendedBy(proc, cause));
      // A process that is suspending keeps its status, but its programs get no more grace.
      if (now) children.hurryOwner(proc.uuid);
    }
    await Promise.all(live.map((proc) => proc.done.then(() => runner.reap(proc))));
    await init.made?.stop(suspendedFor("rnix was stopped", { cause }));
    this.#handsOver ||= all.some((proc) => proc.exit !== undefined && resumesByItself(proc.info()));
    // Shared mounts outlive the processes that use them.
    await mounts.unmountAll();
    runner.pendingRecords.retry();
  }

  #rootOf(proc: Process): Process {
    const parent = this.#parts.table.find(proc.family.ppid);
    return parent ? this.#rootOf(parent) : proc;
  }

  #isSupervised({ family }: Process): boolean {
    const parent = this.#parts.table.find(family.ppid);
    return parent !== undefined && (parent.spec.kind === "supervisor" || this.#isSupervised(parent));
  }
}

/** A process that the user had paused must not resume by itself later. */
function suspendedBy({ paused, waitsForMessage }: Process, cause: SuspendCause): ExitStatus {
  const wake = waitsForMessage ? ({ on: "message" } as const) : undefined;
  return paused
    ? suspendedFor("rnix was stopped while it was paused", { cause: "asked", wake })
    : suspendedFor("rnix was stopped", { cause, wake });
}
