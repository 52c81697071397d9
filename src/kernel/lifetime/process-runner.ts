import type { Children } from "../../os/children.ts";
import type { SyscallError } from "../../plugin/index.ts";
import { namedError } from "../errors/named-error.ts";
import type { FileSystem } from "../file-system.ts";
import type { OpenContexts } from "../files/open-context.ts";
import type { KernelPorts } from "../kernel-ports.ts";
import type { MountManager } from "../mount-manager.ts";
import type { Process } from "../process/process.ts";
import type { ProcessTable } from "../process/process-table.ts";
import { killed, type RunOutcome, suspendedFor, verdict } from "../process/verdict.ts";
import type { ExitStatus, KernelCallbacks, ProcInfo } from "../types.ts";
import { SIGTERM } from "../types.ts";
import type { ChangedFiles } from "./changed-files.ts";
import { runChecks } from "./checks.ts";
import { PendingRecords } from "./pending-records.ts";
import { type ReapPorts, reapProcess } from "./reap.ts";

/** What a process does between its start and its end: an agent reasons, a supervisor supervises. */
export type Task = (proc: Process) => Promise<RunOutcome>;

interface ProcessRunnerPorts {
  table: ProcessTable;
  files: FileSystem;
  mounts: MountManager;
  openContexts: OpenContexts;
  changes: ChangedFiles;
  children: Children;
  reap: Omit<ReapPorts, "task">;
  callbacks?: KernelCallbacks;
  runsIn?: KernelPorts["runsIn"];
  warn(source: string, text: string): void;
}

/** How a process lives from its start to its reap, whatever its task is. Owns the task. */
export class ProcessRunner {
  readonly #ports: ProcessRunnerPorts;
  readonly #reap: ReapPorts;
  readonly #tasks = new WeakMap<Process, Promise<void>>();
  readonly #pendingRecords = new PendingRecords();
  #running = 0;

  constructor(ports: ProcessRunnerPorts) {
    this.#ports = ports;
    this.#reap = { ...ports.reap, task: (proc) => this.#tasks.get(proc) ?? Promise.resolve() };
  }

  /** Tasks under way. */
  get tasks(): number {
    return this.#running;
  }

  /** Sets the task of a started process going. */
  begin(proc: Process, task: Task): void {
    this.#running++;
    this.#tasks.set(
      proc,
      this.#run(proc, task).finally(() => this.#running--),
    );
  }

  /** Reaps a zombie; once, whoever comes first. */
  reap(proc: Process): Promise<void> {
    return reapProcess(this.#reap, proc);
  }

  /** Last records that a full disk refused are tried once more. */
  retryRecords(): void {
    this.#pendingRecords.retry();
  }

  /** What a run has ended with that its disk has not taken: its record still says that it runs. */
  unrecordedEnd(uuid: string): ProcInfo | undefined {
    return this.#pendingRecords.of(uuid);
  }

  /** The run has another process by now: a last record that still waits for its disk is void. */
  forgetRecord(uuid: string): void {
    this.#pendingRecords.forget(uuid);
  }

  /** Works, finishes, and is followed by the automatic reap. It never rejects. */
  async #run(proc: Process, task: Task): Promise<void> {
    const outcome = await task(proc).catch((defect) => failed(namedError(defect, "ReasonStep", proc.pid)));
    // A process that is paused stays so: its checks are programs, and its clock, which has their deadlines, stands.
    await proc.gate();
    await this.#finish(proc, outcome).catch((defect) => this.#endAfterDefect(proc, defect));
    // Not awaited: the reap waits for this very task.
    void this.reap(proc);
  }

  /** The end itself has a defect: whoever waits for the process is told all the same. */
  #endAfterDefect(proc: Process, defect: unknown): void {
    const error = namedError(defect, "Finish", proc.pid);
    this.#ports.warn(`PID ${proc.pid}`, `finish: ${error.message}`);
    if (!proc.exit) proc.terminate({ code: 1, reason: "failed", error });
    proc.settle();
  }

  /**
   * What belongs to the process ends first, then the verdict is written, then the world is told. Whatever
   * goes wrong on the way, it comes to its end: others wait for it.
   */
  async #finish(proc: Process, ran: RunOutcome): Promise<void> {
    const { callbacks, children, files, mounts } = this.#ports;
    await this.#endChildren(proc);
    const outcome = await this.#conclude(proc, ran).catch((thrown) =>
      failed(namedError(thrown, "Check", proc.pid)),
    );
    await this.#attempt(proc, "programs", () => children.endOwner(proc.uuid));
    // A check, or a program that has just ended, may have spawned some more; from here nothing new begins.
    proc.ending = true;
    await this.#attempt(proc, "close", () => files.closeAll(proc));
    await this.#attempt(proc, "mounts", () => mounts.clear(proc));
    await this.#endChildren(proc);
    if (proc.spec.kind === "agent") {
      await this.#attempt(proc, "settle", () => this.#ports.runsIn?.end(proc.spec.opts.project));
    }
    // Not the reason of when it stopped: a kill may have come in the meantime.
    const exit = verdict(finalOutcome(proc, outcome), proc.checks, countedChildren(proc));
    proc.terminate(exit);
    await this.#record(proc);
    this.#notifyParent(proc, exit);
    await this.#attempt(proc, "callbacks", () => {
      if (exit.error) callbacks?.onError(proc.pid, exit.error);
      callbacks?.onComplete(proc.pid, proc.result ?? "", exit);
    });
    for (const watcher of [...proc.watchers]) watcher.end({ type: "complete", info: proc.info() });
    proc.settle();
  }

  /** Checks and the list of changed files, while the process may still start programs. */
  async #conclude(proc: Process, ran: RunOutcome): Promise<RunOutcome> {
    const { changes, openContexts } = this.#ports;
    try {
      if (ran.kind === "finished") proc.checks = await runChecks(openContexts, proc);
    } finally {
      await changes.end(proc);
    }
    return ran.kind !== "broken" && proc.stopped ? { kind: "stopped", status: proc.stopped } : ran;
  }

  /** The end made durable. A disk that refuses it is reported; the verdict that is told stands all the same. */
  async #record(proc: Process): Promise<void> {
    const info = proc.info();
    // What the reap, which follows at once, leaves of it.
    const last: ProcInfo = info.state === "zombie" ? { ...info, state: "dead" } : info;
    await this.#attempt(proc, "the end could not be recorded", () =>
      this.#pendingRecords.write(last, () => proc.record.info(last)),
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
        child.stop(endStatusFor(proc, child));
      }
      await Promise.all(live.map((child) => child.done));
    }
  }

  #notifyParent(proc: Process, exit: ExitStatus): void {
    this.#ports.table.find(proc.ppid)?.childEnded({
      uuid: proc.uuid,
      pid: proc.pid,
      agent: proc.spec.agent.name,
      exit_code: exit.code,
      exit_reason: exit.reason,
      tokens_used: proc.tokensUsed,
    });
  }
}

/** What is laid down lays down what it has spawned: that can be gone on with, too. */
function endStatusFor(proc: Process, child: Process): ExitStatus {
  return proc.stopped?.reason === "suspended"
    ? suspendedFor(`PID ${proc.pid}, which spawned it, was suspended`, { cause: "parent" })
    : killed(SIGTERM, child.paused);
}

/** A supervisor decides itself what a child's failure means. */
function countedChildren(proc: Process): Process["childResults"] {
  return proc.spec.kind === "supervisor" ? [] : proc.childResults;
}

/** Only an agent's run can be gone on with: whoever suspends something else ends it. */
function finalOutcome(proc: Process, outcome: RunOutcome): RunOutcome {
  if (outcome.kind !== "stopped" || !proc.stopped) return outcome;
  const ends = proc.stopped.reason === "suspended" && proc.spec.kind !== "agent";
  return { kind: "stopped", status: ends ? killed(SIGTERM, false) : proc.stopped };
}

function failed(error: SyscallError): RunOutcome {
  return { kind: "broken", reason: "failed", error };
}
