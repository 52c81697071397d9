import type { Clock } from "../lib/clock.ts";
import { SyscallError } from "../plugin/index.ts";
import { requireOwn } from "../store/runs/own-run.ts";
import type { RunStore } from "../store/runs/run-store.ts";
import { namedError } from "./debugger.ts";
import type { Inboxes } from "./ipc/inboxes.ts";
import { Shutdown, type ShutdownOptions, type ShutdownPorts } from "./lifetime/shutdown.ts";
import type { Process } from "./process/process.ts";
import { killed, suspendedFor } from "./process/verdict.ts";
import type { ProcessManager } from "./process-manager.ts";
import { readFork } from "./resume/fork.ts";
import { orphanedRecord } from "./resume/orphaned-record.ts";
import { type ResumeNews, resumeMessage } from "./resume/resume-message.ts";
import { type Claim, RunClaims } from "./resume/run-claims.ts";
import { readSavedRun, type SavedRun } from "./resume/saved-run.ts";
import { SuspendedRuns } from "./resume/suspended-runs.ts";
import type { AgentInfo, ExitStatus, PID, ProcInfo, Signal, SpawnOpts, Wake } from "./types.ts";
import { SIGPAUSE, SIGRESUME } from "./types.ts";

interface LifecycleManagerPorts extends ShutdownPorts {
  processes: ProcessManager;
  inboxes: Inboxes;
  clock: Clock;
  /** The records of one data folder. */
  runs(dataDir: string): RunStore;
  /** Whoever embeds the kernel has a waker. */
  wakes?: boolean;
  /** Whether another kernel of this id is alive: its runs are its own. */
  kernelAlive(kernelId: string): boolean;
  /** Ends the programs of all kernels that are dead by now; resolves when they are gone. */
  sweepPrograms(): Promise<void>;
  /** Goes on with the children that were laid down with a run, below it. */
  takeUpChildren(proc: Process, saved: SavedRun): Promise<void>;
  /** Tells the supervisor of a run that goes on, if it has one. */
  goesOn(proc: Process): void;
  /** A suspended run was ended. */
  lost(uuid: string, exit: ExitStatus): void;
}

/** What a run is gone on with. */
export interface ResumeOptions {
  /** Told to its model as the user's words. */
  input?: string;
  /**
   * A new run begins with its steps, up to this one or all that are recorded; it stays as it is. `adopt`: it is a foreign
   * one, of which the conversation alone is taken over.
   */
  fork?: { step?: number; adopt?: boolean };
}

/** `step`: the last one that was whole. */
export interface Resumed {
  pid: PID;
  /** A fork has one of its own. */
  uuid: string;
  step: number;
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
  readonly #claims: RunClaims;
  readonly #suspended: SuspendedRuns;
  readonly #shutdown: Shutdown;

  constructor(ports: LifecycleManagerPorts) {
    this.#ports = ports;
    this.#claims = new RunClaims(ports);
    this.#shutdown = new Shutdown(ports);
    this.#suspended = new SuspendedRuns({
      ...ports,
      claims: this.#claims,
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

  /** The same by a process itself, in the middle of what it does: it stops at the next moment. */
  layDown(proc: Process, reason: string, wake: Wake): void {
    const { debug } = this.#ports;
    const args = { pid: proc.pid, reason, wake };
    debug.callNow(proc, proc, "Suspend", args, () => proc.stop(suspendedFor(reason, { wake })));
  }

  /** False for a run that lives here; of one that has just ended it is waited for. */
  async #isGone(uuid: string): Promise<boolean> {
    const here = this.#ports.table.findByUuid(uuid);
    if (here && !here.exit) return false;
    if (here) await this.gone(here);
    return true;
  }

  /** What a run has ended with that its disk has not taken: its record still says that it runs. It is tried again. */
  unrecordedEnd(uuid: string): ProcInfo | undefined {
    const { life } = this.#ports;
    const info = life.unrecordedEnd(uuid);
    if (info) life.retryRecords();
    return info;
  }

  /** Resolves when a process that has ended is reaped, and its record says how it did. */
  async gone(proc: Process): Promise<void> {
    await proc.done;
    await this.#ports.life.reap(proc);
    this.#ports.life.retryRecords();
  }

  /**
   * A suspended run that nobody holds waits for this from now on, by itself for a person, and its record says why.
   * Nothing for one that is not suspended any more, INVALID while somebody goes on with it.
   */
  async leave(uuid: string, dataDir: string, reason: string, wake: Wake = { on: "never" }): Promise<void> {
    await this.#ports.debug.awaitByPid0(undefined, "Suspend", { uuid, reason, wake }, () =>
      this.#suspended.leave(uuid, dataDir, reason, wake),
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
  async resume(
    uuid: string,
    agent: AgentInfo | null,
    opts: SpawnOpts,
    o: ResumeOptions = {},
  ): Promise<Resumed> {
    let handedOn = false;
    let claim: Claim | undefined;
    try {
      const known = await this.#require(uuid, opts);
      if (!o.fork?.adopt) requireOwn(known);
      if (!o.fork) claim = await this.#claims.take(uuid, opts.project.dataDir, "resume");
      const saved = await (o.fork
        ? this.#readFork(uuid, agent, opts, o.fork)
        : this.#read(uuid, agent, opts));
      const news = resumeMessage(saved, o.input);
      handedOn = true;
      let made = uuid;
      const pid = await this.#ports.processes.resume(saved, agent, opts, async (proc) => {
        made = proc.uuid;
        if (!saved.fork) this.#ports.life.forgetRecord(uuid);
        if (saved.info.moved_from !== undefined && saved.progress.answered === null)
          await this.#tell(proc, movedNews(saved.info, saved.info.moved_from));
        if (news) await this.#tell(proc, news);
        // Before it does anything: it may have come to its end else, and they with it.
        if (saved.fork) return;
        await this.#ports.takeUpChildren(proc, saved);
        this.#ports.goesOn(proc);
      });
      return { pid, uuid: made, step: saved.history.step };
    } catch (thrown) {
      if (!handedOn) opts.devices.release();
      throw namedError(thrown, "Resume", 0);
    } finally {
      claim?.release();
    }
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
    return this.#ports.drain.underWay;
  }

  async #require(uuid: string, opts: SpawnOpts): Promise<ProcInfo> {
    const info = await this.#ports.runs(opts.project.dataDir).info(uuid);
    if (info) return info;
    throw noRun(uuid);
  }

  async #read(uuid: string, agent: AgentInfo | null, opts: SpawnOpts): Promise<SavedRun> {
    const { table, life, kernelAlive, sweepPrograms } = this.#ports;
    const here = table.findByUuid(uuid);
    if (here && !here.exit) throw alive(here.pid);
    // It has ended and holds things of the run until it is reaped.
    if (here) await this.gone(here);
    else life.retryRecords();
    const runs = this.#ports.runs(opts.project.dataDir);
    const left = await orphanedRecord(runs, uuid, kernelAlive);
    if (!left) throw noRun(uuid);
    const { info, held } = left;
    requireOwn(info);
    if (held) throw aliveElsewhere(info.pid);
    requireAgent(info);
    // A call that its model is told of as unknown must not go on happening behind its back.
    if (info.ended_at_ms === null) await sweepPrograms();
    return readSavedRun(runs, info, agent);
  }

  async #readFork(
    uuid: string,
    agent: AgentInfo | null,
    opts: SpawnOpts,
    o: { step?: number; adopt?: boolean },
  ): Promise<SavedRun> {
    const { table, life, clock, runs } = this.#ports;
    life.retryRecords();
    // What lives here is known better than by its record.
    const live = o.adopt ? undefined : table.findByUuid(uuid);
    const info = live?.info() ?? (await this.#require(uuid, opts));
    requireAgent(info);
    return readFork(runs(opts.project.dataDir), info, agent, { ...o, clock });
  }

  async #tell(proc: Process, news: ResumeNews): Promise<void> {
    const ts = new Date(this.#ports.clock.now()).toISOString();
    await this.#ports.inboxes.put(proc, { ...news, ts });
  }
}

interface SuspendOptions {
  /** For people. */
  reason?: string;
  wake?: Wake;
  by?: Process;
}

/** Its conversation names files where they were. */
function movedNews({ project }: ProcInfo, from: string): ResumeNews {
  const text = `This run was recorded in ${from}, and goes on in the project ${project}. Paths below ${from} that were named so far lead to another place: look for the files below ${project}.`;
  return { kind: "notice", source: "rnix", text };
}

function requireAgent({ kind, uuid }: ProcInfo): void {
  if (kind === "agent") return;
  throw new SyscallError("INVALID", `Run ${uuid} is a ${kind}'s: only agents are gone on with.`);
}

function endsNothing(signal: Signal): SyscallError {
  return new SyscallError(
    "INVALID",
    `Expected SIGTERM, SIGINT or SIGKILL for a suspended run, got ${signal}.`,
  );
}

function alive(pid: PID): SyscallError {
  return new SyscallError(
    "INVALID",
    `The run lives, as PID ${pid}: only one that has ended or was suspended is resumed. \`rnix attach ${pid}\` follows it.`,
    { pid },
  );
}

function noRun(uuid: string): SyscallError {
  return new SyscallError("NOT_FOUND", `There is no run ${uuid}. \`rnix ps -a\` lists those that are.`);
}

function aliveElsewhere(pid: PID): SyscallError {
  return new SyscallError(
    "INVALID",
    `The run lives, as PID ${pid} of another rnix: a command with --no-daemon, or another daemon. It can be resumed when it has ended there, and forked now (--fork).`,
    { pid },
  );
}
