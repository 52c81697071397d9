import type { Children } from "../os/children.ts";
import { SyscallError } from "../plugin/index.ts";
import type { Changes } from "./changes.ts";
import { runChecks } from "./checks.ts";
import { type Debugger, namedError } from "./debugger.ts";
import type { FileSystem } from "./file-system.ts";
import { LastRecords } from "./last-records.ts";
import type { OpenContexts } from "./open-context.ts";
import type { Process } from "./process.ts";
import type { ProcessBuilder } from "./process-builder.ts";
import type { ProcessTable } from "./process-table.ts";
import { type ReapPorts, reapProcess } from "./reap.ts";
import { type LoopPorts, reason } from "./reasoning-loop.ts";
import type { AgentInfo, ExitStatus, KernelCallbacks, PID, ProcInfo, Signal, SpawnOpts } from "./types.ts";
import { SIGINT, SIGKILL, SIGPAUSE, SIGRESUME, SIGTERM } from "./types.ts";
import { killed, type Outcome, SUSPENDED, verdict } from "./verdict.ts";

/** Characters of an intent in the trace; the record has the whole. */
const INTENT_SHOWN = 200;

interface ProcessManagerPorts {
  table: ProcessTable;
  builder: ProcessBuilder;
  loop: LoopPorts;
  files: FileSystem;
  debug: Debugger;
  openContexts: OpenContexts;
  changes: Changes;
  children: Children;
  reap: Omit<ReapPorts, "task">;
  callbacks?: KernelCallbacks;
  warn(source: string, text: string): void;
}

/** Spawn, Kill, Wait, ListProcs, GetPID (seeds 1.2), and how a process lives from its start to its reap. */
export class ProcessManager {
  readonly #ports: ProcessManagerPorts;
  readonly #reap: ReapPorts;
  readonly #tasks = new WeakMap<Process, Promise<void>>();
  readonly #lastRecords = new LastRecords();
  #closing = false;

  constructor(ports: ProcessManagerPorts) {
    this.#ports = ports;
    this.#reap = { ...ports.reap, task: (proc) => this.#tasks.get(proc) ?? Promise.resolve() };
  }

  /**
   * Creates a process and starts its reasoning. The device lease becomes the kernel's: it is released at
   * the reap, or here when the spawn fails.
   */
  async spawn(intent: string, agent: AgentInfo | null, opts: SpawnOpts): Promise<PID> {
    try {
      if (this.#closing) {
        opts.devices.release();
        throw new SyscallError(
          "UNAVAILABLE",
          "The kernel is shutting down and takes no new processes. Try again in a moment.",
        );
      }
      const proc = await this.#ports.builder.build(intent, agent, opts, (built) => this.#start(built));
      this.#tasks.set(proc, this.#run(proc));
      return proc.pid;
    } catch (thrown) {
      throw namedError(thrown, "Spawn", 0);
    }
  }

  /**
   * Sends a signal to this process alone: what it has spawned goes on, as PID 0's. One that has ended already
   * takes none, and that is no error.
   */
  kill(pid: PID, signal: Signal): void {
    const proc = this.#ports.table.get(pid);
    if (ENDING.has(signal)) this.#orphan(proc);
    this.#deliver(proc, signal);
  }

  /** Sends a signal to a process and all below it; returns how many it reached. */
  signalTree(pid: PID, signal: Signal): number {
    const tree = this.#ports.table
      .tree(this.#ports.table.get(pid))
      .filter((proc) => proc.state === "running");
    for (const proc of tree) this.#deliver(proc, signal);
    return tree.length;
  }

  /** Ends a run so that it can be gone on with later: exit 75. Resolves when its record is on disk. */
  async suspend(pid: PID): Promise<ExitStatus> {
    const proc = this.#ports.table.get(pid);
    proc.stop(SUSPENDED);
    return await proc.done;
  }

  /** Waits for the end, then for the reap, which whoever comes first does. */
  async wait(pid: PID): Promise<ExitStatus> {
    const proc = this.#ports.table.get(pid);
    const exit = await proc.done;
    await reapProcess(this.#reap, proc);
    return exit;
  }

  /** Snapshots: nothing in them changes when the process does. */
  listProcs(): ProcInfo[] {
    return this.#ports.table.all().map((proc) => proc.info());
  }

  getPid(proc: Process): PID {
    return proc.pid;
  }

  /**
   * Ends all processes, suspended so that they can be gone on with, or killed with `now`; takes no new
   * ones. Resolves when the last is reaped. The owner of the ports closes them afterwards.
   */
  async shutdown({ now = false }: { now?: boolean } = {}): Promise<void> {
    this.#closing = true;
    const live = this.#ports.table.all();
    for (const proc of live) {
      proc.stop(now ? killed(SIGKILL, proc.paused) : SUSPENDED);
      // One that is suspended already stays so: only its programs get no grace any more.
      if (now) this.#ports.children.hurryOwner(proc.uuid);
    }
    await Promise.all(live.map((proc) => proc.done.then(() => reapProcess(this.#reap, proc))));
    this.#lastRecords.retry();
  }

  async #start(proc: Process): Promise<void> {
    const { intent, agent } = proc.spec;
    const { callbacks, debug } = this.#ports;
    const args = {
      intent: intent.slice(0, INTENT_SHOWN),
      agent: agent.name,
      provider: proc.provider.name,
      model: proc.provider.model,
    };
    await debug.call(
      proc,
      "Spawn",
      args,
      () => {
        proc.start();
        proc.record.info(proc.info());
      },
      () => proc.pid,
    );
    callbacks?.onSpawn(proc.pid, intent, proc.provider.name, proc.provider.model);
  }

  /** The reasoning task: thinks, finishes, and is followed by the automatic reap. It never rejects. */
  async #run(proc: Process): Promise<void> {
    const { loop, warn } = this.#ports;
    const outcome = await reason(loop, proc).catch((defect) =>
      failed(namedError(defect, "ReasonStep", proc.pid)),
    );
    await this.#finish(proc, outcome).catch((defect) => warn(`PID ${proc.pid}`, `finish: ${String(defect)}`));
    // Not awaited: the reap waits for this very task.
    void reapProcess(this.#reap, proc).catch((defect) => warn(`PID ${proc.pid}`, `reap: ${String(defect)}`));
  }

  /**
   * What belongs to the process ends first, then the verdict is written, then the world is told. Whatever
   * goes wrong on the way, it comes to its end: others wait for it.
   */
  async #finish(proc: Process, ran: Outcome): Promise<void> {
    const { callbacks, children, files } = this.#ports;
    await this.#endChildren(proc);
    const outcome = await this.#conclude(proc, ran).catch((thrown) =>
      failed(namedError(thrown, "Check", proc.pid)),
    );
    await this.#attempt(proc, "programs", () => children.endOwner(proc.uuid));
    await this.#attempt(proc, "close", () => files.closeAll(proc));
    // A check, or a program that has just ended, may have spawned some more.
    proc.ending = true;
    await this.#endChildren(proc);
    // Not the reason of when it stopped: a kill may have come in the meantime.
    const exit = verdict(latest(proc, outcome), proc.checks, proc.childResults);
    proc.terminate(exit);
    await this.#record(proc);
    this.#tellParent(proc, exit);
    await this.#attempt(proc, "callbacks", () => {
      if (exit.error) callbacks?.onError(proc.pid, exit.error);
      callbacks?.onComplete(proc.pid, proc.result ?? "", exit);
    });
    for (const watcher of [...proc.watchers]) watcher.end({ type: "complete", info: proc.info() });
    proc.settle();
  }

  /** Checks and the list of changed files, while the process may still start programs. */
  async #conclude(proc: Process, ran: Outcome): Promise<Outcome> {
    const { changes, openContexts } = this.#ports;
    if (ran.kind === "finished") proc.checks = await runChecks(openContexts, proc);
    await changes.end(proc);
    return ran.kind !== "broken" && proc.stopped ? { kind: "stopped", status: proc.stopped } : ran;
  }

  /** The end made durable. A disk that refuses it is reported; the verdict that is told stands all the same. */
  async #record(proc: Process): Promise<void> {
    const info = proc.info();
    // What the reap, which follows at once, leaves of it.
    const last: ProcInfo = info.state === "zombie" ? { ...info, state: "dead" } : info;
    await this.#attempt(proc, "the end could not be recorded", () =>
      this.#lastRecords.write(proc.uuid, () => proc.record.info(last)),
    );
    await this.#attempt(proc, "the end could not be made durable", () => proc.record.close());
  }

  /** A part of the end: what goes wrong in it is told, and the next one follows. */
  async #attempt(proc: Process, what: string, part: () => Promise<void> | void): Promise<void> {
    try {
      await part();
    } catch (thrown) {
      this.#ports.warn(`PID ${proc.pid}`, `${what}: ${namedError(thrown, what, proc.pid).message}`);
    }
  }

  /** A process that ends first ends its children and waits until they have, and those that came meanwhile. */
  async #endChildren(proc: Process): Promise<void> {
    const ended = new Set<Process>();
    for (;;) {
      const live = proc.children
        .map((pid) => this.#ports.table.find(pid))
        .filter((child) => child !== undefined)
        .filter((child) => !ended.has(child));
      if (live.length === 0) return;
      for (const child of live) {
        ended.add(child);
        child.stop(killed(SIGTERM, child.paused));
      }
      await Promise.all(live.map((child) => child.done));
    }
  }

  /** One that is still being built has nobody else to end it, and stays. */
  #orphan(proc: Process): void {
    for (const pid of [...proc.children]) {
      const child = this.#ports.table.find(pid);
      if (child?.state !== "running") continue;
      proc.children.splice(proc.children.indexOf(child.pid), 1);
      child.ppid = 0;
      void this.#attempt(child, "record", () => child.record.info(child.info()));
    }
  }

  #tellParent(proc: Process, exit: ExitStatus): void {
    const parent = this.#ports.table.find(proc.ppid);
    if (!parent) return;
    parent.childResults.push({
      uuid: proc.uuid,
      pid: proc.pid,
      agent: proc.spec.agent.name,
      exit_code: exit.code,
      exit_reason: exit.reason,
      tokens_used: proc.tokensUsed,
    });
  }

  #deliver(proc: Process, signal: Signal): void {
    switch (signal) {
      case SIGTERM:
      case SIGINT:
      case SIGKILL:
        // What still runs of a process that is suspended, or was asked to end, is not waited for any more.
        if (signal === SIGKILL || proc.stopped?.reason === "suspended")
          this.#ports.children.hurryOwner(proc.uuid);
        proc.kill(killed(signal, proc.paused));
        return;
      case SIGPAUSE:
        proc.pause();
        break;
      case SIGRESUME:
        proc.resume();
        break;
      default:
        throw new SyscallError(
          "INVALID",
          `Signal ${String(signal)} does not exist. Expected 1 (TERM), 2 (KILL), 3 (INT), 4 (PAUSE) or 5 (RESUME).`,
        );
    }
    if (proc.state === "running") void this.#attempt(proc, "record", () => proc.record.info(proc.info()));
  }
}

const ENDING: ReadonlySet<Signal> = new Set([SIGTERM, SIGKILL, SIGINT]);

function latest(proc: Process, outcome: Outcome): Outcome {
  return outcome.kind === "stopped" && proc.stopped ? { kind: "stopped", status: proc.stopped } : outcome;
}

function failed(error: SyscallError): Outcome {
  return { kind: "broken", reason: "failed", error };
}
