import type { Clock } from "../lib/clock.ts";
import { SyscallError } from "../plugin/index.ts";
import type { RunStore } from "../store/runs/run-store.ts";
import type { LifecycleEvents } from "./lifetime/lifecycle-events.ts";
import type { Resumed, ResumeOptions, RunResumer } from "./lifetime/run-resumer.ts";
import { Shutdown, type ShutdownOptions, type ShutdownPorts } from "./lifetime/shutdown.ts";
import type { Process } from "./process/process.ts";
import { killed, suspendedFor } from "./process/verdict.ts";
import type { RunClaims } from "./resume/run-claims.ts";
import { SuspendedRuns } from "./resume/suspended-runs.ts";
import type { AgentInfo, ExitStatus, PID, ProcInfo, Signal, SpawnOpts, Wake } from "./types.ts";
import { SIGPAUSE, SIGRESUME } from "./types.ts";

interface LifecycleManagerPorts extends ShutdownPorts {
  clock: Clock;
  claims: RunClaims;
  resumer: RunResumer;
  events: LifecycleEvents;
  /** The records of one data folder. */
  runs(dataDir: string): RunStore;
  /** Whether a waker resumes suspended runs. */
  wakes?: boolean;
  /** Whether another live kernel has this id. */
  kernelAlive(kernelId: string): boolean;
  /** Ends the programs of all dead kernels; resolves when they are gone. */
  sweepPrograms(): Promise<void>;
}

/** Where a run stands on disk. */
interface CheckpointInfo {
  uuid: string;
  /** The last step that a Resume would find whole. */
  step: number;
}

/** Checkpoint, Suspend, Resume, Shutdown: how runs are laid down and taken up again (design §2). */
export class LifecycleManager {
  readonly #ports: LifecycleManagerPorts;
  readonly #suspended: SuspendedRuns;
  readonly #shutdown: Shutdown;

  constructor(ports: LifecycleManagerPorts) {
    this.#ports = ports;
    this.#shutdown = new Shutdown(ports);
    this.#suspended = new SuspendedRuns({
      ...ports,
      ended: (uuid, exit) => ports.events.ended(uuid, exit),
      isGone: (uuid) => this.#isGone(uuid),
    });
  }

  /**
   * Makes everything recorded of a process so far survive a power loss. `by` is the process that calls, none is
   * PID 0, here and below. NOT_FOUND when it has ended.
   */
  async checkpoint(pid: PID, by?: Process): Promise<CheckpointInfo> {
    const { table, debug } = this.#ports;
    const save = async (): Promise<CheckpointInfo> => {
      const proc = table.get(pid);
      if (proc.exit) throw new SyscallError("NOT_FOUND", `PID ${pid} has ended: its records are complete.`);
      const step = proc.recordedStep;
      // Written at once: a record of what runs must not be written when its end already is.
      proc.record.info(proc.info());
      await proc.record.sync();
      return { uuid: proc.uuid, step };
    };
    return by
      ? debug.call(by, "Checkpoint", { pid }, save, ({ step }) => step)
      : debug.awaitByPid0(table.find(pid), "Checkpoint", { pid }, save, ({ step }) => step);
  }

  /**
   * Ends a run so that it can be gone on with later: exit 75. The model call under way is cancelled, and what
   * there is of its text is kept. Resolves when the record is on disk; for one that has ended already, with how.
   */
  async suspend(pid: PID, o: SuspendOptions = {}): Promise<ExitStatus> {
    const { table, debug } = this.#ports;
    const { reason = "asked for", wake = { on: "never" }, by } = o;
    const proc = debug.callNow(by, table.find(pid), "Suspend", { pid, reason, wake }, () => {
      const found = table.get(pid);
      found.stop(suspendedFor(reason, { wake }));
      return found;
    });
    return await proc.done;
  }

  /** False for a run that lives here; of one that has just ended it is waited for. */
  async #isGone(uuid: string): Promise<boolean> {
    const here = this.#ports.table.findByUuid(uuid);
    if (here && !here.exit) return false;
    if (here) await this.#ports.resumer.gone(here);
    return true;
  }

  /** What a run has ended with that its disk has not taken: its record still says that it runs. It is tried again. */
  unrecordedEnd(uuid: string): ProcInfo | undefined {
    const { runner } = this.#ports;
    const info = runner.unrecordedEnd(uuid);
    if (info) runner.retryRecords();
    return info;
  }

  /**
   * A suspended run that nobody holds waits for this from now on, by itself for a person, and its record says why.
   * Nothing for one that is not suspended any more, INVALID while somebody goes on with it.
   */
  async setWake(uuid: string, dataDir: string, reason: string, wake: Wake = { on: "never" }): Promise<void> {
    await this.#ports.debug.awaitByPid0(undefined, "Suspend", { uuid, reason, wake }, () =>
      this.#suspended.setWake(uuid, dataDir, reason, wake),
    );
  }

  /**
   * Ends a suspended run that nobody holds, as this signal would have: its record says so, and nothing goes on with it by
   * itself; with `tree` the children that were laid down with it end first. `info` is how it stands, also of one that was
   * cut off. Answers how many have ended: none for one that is not suspended any more. INVALID while somebody goes on
   * with it, and for a signal that ends nothing.
   */
  async endSuspended(
    info: ProcInfo,
    dataDir: string,
    signal: Signal,
    { tree = false }: { tree?: boolean } = {},
  ): Promise<number> {
    const end = async (): Promise<number> => {
      if (signal === SIGPAUSE || signal === SIGRESUME) throw endsNothing(signal);
      return (await this.#suspended.end(info, dataDir, killed(signal, false), tree)).ended;
    };
    const args = { uuid: info.uuid, signal, tree };
    return await this.#ports.debug.awaitByPid0(undefined, "Kill", args, end, (ended) => ended);
  }

  /**
   * Goes on with a run that has ended or was cut off: a new process with its UUID and a new PID. Its conversation
   * is what its records say, and the head of its prompt does not change; a call that had started and of which no
   * end is known is made again where that does no harm, and else its model is told (design §7). The device lease
   * becomes the kernel's, as at a spawn. INVALID when the run lives, when another takes it up at the same time,
   * when it has completed and there is no input to go on with, and for what is no agent's run. With `fork` the run
   * need not have ended, and others may go on with it meanwhile. PERMISSION for a foreign run.
   */
  resume(uuid: string, agent: AgentInfo | null, opts: SpawnOpts, o: ResumeOptions = {}): Promise<Resumed> {
    return this.#ports.resumer.resume(uuid, agent, opts, o);
  }

  /**
   * Ends all processes, suspended so that they can be gone on with, or killed with `now`; takes no new
   * ones. Resolves when the last is reaped. The owner of the ports closes them afterwards. `cause`: `asked` where
   * the kernel ends with what a person has run in it, `restart` where another takes its place. Tool calls under way
   * have `drainMs` to finish, and nobody begins anything new meanwhile; what goes on after that is cut off.
   */
  shutdown({ now = false, cause = "stop", drainMs = 0 }: ShutdownOptions = {}): Promise<void> {
    return this.#shutdown.run({ now, cause, drainMs });
  }

  /** Some of those that a shutdown has suspended go on by themselves when rnix starts again. */
  get handsOver(): boolean {
    return this.#shutdown.handsOver;
  }

  /** Tool calls under way that a shutdown with a drain waits for. */
  get callsUnderWay(): number {
    return this.#ports.drain.activeCalls;
  }
}

interface SuspendOptions {
  /** For people. */
  reason?: string;
  wake?: Wake;
  by?: Process;
}

function endsNothing(signal: Signal): SyscallError {
  return new SyscallError(
    "INVALID",
    `Expected SIGTERM, SIGINT or SIGKILL for a suspended run, got ${signal}.`,
  );
}
