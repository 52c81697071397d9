/** Runs the task of a process, and ends the process. */

import { SIGTERM } from "../../lib/signals.ts";
import type { SyscallError } from "../../plugin/index.ts";
import type { ChildResult } from "../../store/runs/schema.ts";
import { namedError } from "../errors/kernel-errors.ts";
import type { Process } from "../process/process.ts";
import { killed, type RunOutcome, suspendedFor, verdict } from "../process/verdict.ts";
import type { Io } from "../tiers/io.ts";
import type { ExitStatus, ProcInfo } from "../types.ts";
import { type Holders, type ReapPorts, reapProcess } from "./reap.ts";

/** The work of a process between its start and its end: an agent reasons, a supervisor supervises. */
export type Task = (proc: Process) => Promise<RunOutcome>;

/** With `CI` set, a step ends within a second of its time limit. */
const OVERTIME_MS = 700;
/** Exit codes of runs that no signal ended. */
const FAILED = 1;
const BUDGET_EXCEEDED = 2;

const NO_LIMIT = { end: (): void => {} };

type ProcessRunnerParts = Io & { holders: Holders };

/** Runs processes from start to reap, whatever their task is. Owns the tasks. */
export class ProcessRunner {
  readonly #parts: ProcessRunnerParts;
  readonly #reap: ReapPorts;
  readonly #tasks = new WeakMap<Process, Promise<void>>();
  /** Last records that the disk has not accepted yet. */
  readonly pendingRecords = new PendingRecords();
  #running = 0;

  constructor(parts: ProcessRunnerParts) {
    this.#parts = parts;
    this.#reap = { ...parts, task: (proc) => this.#tasks.get(proc) ?? Promise.resolve() };
  }

  get tasks(): number {
    return this.#running;
  }

  begin(proc: Process, task: Task): void {
    this.#running++;
    this.#tasks.set(
      proc,
      this.#run(proc, task).finally(() => this.#running--),
    );
  }

  /** Reaps a zombie once; later callers wait for the same reap. */
  reap(proc: Process): Promise<void> {
    return reapProcess(this.#reap, proc);
  }

  /** Runs the task, finishes the process and starts its reap. It never rejects. */
  async #run(proc: Process, task: Task): Promise<void> {
    const overtime = this.#limitOvertime(proc);
    const outcome = await task(proc).catch((defect) => failed(namedError(defect, "ReasonStep", proc.pid)));
    // A paused process stays paused.
    await proc.gate();
    await this.#finish(proc, outcome).catch((defect) => this.#endAfterDefect(proc, defect));
    overtime.end();
    // Not awaited: the reap waits for this very task.
    void this.reap(proc);
  }

  /** In a pipeline, programs that ignore TERM get no whole grace after the run's time limit. */
  #limitOvertime(proc: Process): { end(): void } {
    if (!proc.spec.opts.env.CI) return NO_LIMIT;
    const { children, mounts, table } = this.#parts;
    let end = (): void => {};
    const begin = (): void => {
      if (proc.stopped?.reason !== "timeout") return;
      const hurriers = table.tree(proc).map((member) => mounts.hurrier(member));
      const hurry = (): void => {
        for (const { uuid } of table.tree(proc)) children.hurryOwner(uuid);
        for (const hurryMounts of hurriers) hurryMounts();
      };
      const timer = proc.spec.clock.timer(OVERTIME_MS, hurry);
      // A mount that was still starting is closed after the end.
      end = () => {
        timer.cancel();
        hurry();
      };
    };
    proc.signal.addEventListener("abort", begin, { once: true });
    return { end: () => end() };
  }

  /** The end itself failed by a defect: the callers that wait are released all the same. */
  #endAfterDefect(proc: Process, defect: unknown): void {
    const error = namedError(defect, "Finish", proc.pid);
    this.#parts.warn(`PID ${proc.pid}`, `finish: ${error.message}`);
    if (!proc.exit) proc.terminate({ code: 1, reason: "failed", error });
    proc.settle();
  }

  /**
   * Ends what belongs to the process, writes the verdict, then notifies the parent, callbacks and watchers. A failed
   * part is logged and the next one follows, because callers wait for the end.
   */
  async #finish(proc: Process, ran: RunOutcome): Promise<void> {
    const { callbacks, children, files, mounts, units, watchers } = this.#parts;
    watchers.doing(proc, "end", "ending");
    await this.endChildren(proc);
    const broken = (thrown: unknown) => failed(namedError(thrown, "ChangedFiles", proc.pid));
    const outcome = await this.#conclude(proc, ran).catch(broken);
    await this.#attempt(proc, "units", () => units.end(proc));
    await this.#attempt(proc, "programs", () => children.endOwner(proc.uuid));
    // A program may have spawned more children. From here on there are no new ones.
    proc.ending = true;
    await this.#attempt(proc, "close", () => files.closeAll(proc));
    await this.#attempt(proc, "mounts", () => mounts.clear(proc));
    await this.endChildren(proc);
    if (proc.spec.kind === "agent") {
      await this.#attempt(proc, "settle", () => this.#parts.runsIn?.end(proc.spec.opts.project));
    }
    // Reads `stopped` again: a kill may have replaced the first reason.
    const earned = verdict(
      finalOutcome(proc, outcome),
      proc.result.checks,
      countedChildren(proc, units.agents(proc)),
    );
    proc.terminate(earned);
    // The trace of a run that a limit, a check or an error ended says so at its end (seeds 4.4).
    const { code, reason, error } = earned;
    if (error !== undefined && (code === FAILED || code === BUDGET_EXCEEDED))
      this.#parts.debug.failed(proc, proc, "Exit", { action: reason, code }, error);
    const exit = await this.#record(proc, earned);
    this.#notifyParent(proc, exit);
    await this.#attempt(proc, "callbacks", () => {
      if (exit.error) callbacks?.onError(proc.pid, exit.error);
      callbacks?.onComplete(proc.pid, proc.result.text ?? "", exit);
    });
    watchers.ended(proc);
    proc.settle();
  }

  /** The list of changed files, while the process may still start programs. */
  async #conclude(proc: Process, ran: RunOutcome): Promise<RunOutcome> {
    await this.#parts.changes.end(proc);
    return ran.kind !== "broken" && proc.stopped ? { kind: "stopped", status: proc.stopped } : ran;
  }

  /**
   * Makes the end durable. A failure is logged, and a run that had completed has failed: its record does not say so.
   * Returns the verdict.
   */
  async #record(proc: Process, earned: ExitStatus): Promise<ExitStatus> {
    const write = (): void => {
      const info = proc.info();
      // The reap follows at once and makes it dead.
      const last: ProcInfo = info.state === "zombie" ? { ...info, state: "dead" } : info;
      this.pendingRecords.write(last, () => proc.record.info(last));
    };
    const what = "the end could not be recorded";
    const error = await this.#attempt(proc, what, write);
    const exit: ExitStatus =
      error === null || earned.code !== 0 ? earned : { code: FAILED, reason: "record_error", error };
    if (exit !== earned) {
      proc.amend(exit);
      await this.#attempt(proc, what, write);
    }
    await this.#attempt(proc, "the end could not be made durable", () => proc.record.close());
    return exit;
  }

  /** Runs one part of the end. Logs its failure and returns it. */
  async #attempt(
    proc: Process,
    what: string,
    part: () => Promise<void> | void,
  ): Promise<SyscallError | null> {
    try {
      await part();
      return null;
    } catch (thrown) {
      const error = namedError(thrown, what, proc.pid);
      this.#parts.warn(`PID ${proc.pid}`, `${what}: ${error.message}`);
      return error;
    }
  }

  /** Ends all children and waits for them, also for children that are spawned meanwhile. */
  async endChildren(proc: Process): Promise<void> {
    const ended = new Set<Process>();
    for (;;) {
      const live = proc.family.children
        .map((pid) => this.#parts.table.find(pid))
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
    const parent = this.#parts.table.find(proc.family.ppid);
    const read = proc.permissions.taint;
    if (parent && read) this.#parts.taint(parent, read.origin, `the run ${proc.uuid}: ${read.source}`);
    parent?.family.childEnded({
      uuid: proc.uuid,
      pid: proc.pid,
      agent: proc.spec.agent.name,
      exit_code: exit.code,
      exit_reason: exit.reason,
      tokens_used: proc.tokensUsed,
      ...(exit.withParent && { interrupted: true }),
    });
  }
}

/** The children of a suspended process are suspended too, so that they can be resumed with it. */
function endStatusFor(proc: Process, child: Process): ExitStatus {
  return proc.stopped?.reason === "suspended"
    ? suspendedFor(`PID ${proc.pid}, which spawned it, was suspended`, { cause: "parent" })
    : killed(SIGTERM, child.paused);
}

/**
 * A supervisor or a workflow itself decides what a child's failure means, and in a chat the user does. The failure of a child in the
 * background is reported to its parent.
 */
function countedChildren(proc: Process, inBackground: ReadonlySet<string>): ChildResult[] {
  if (proc.spec.kind === "supervisor" || proc.spec.opts.chat || proc.spec.opts.script) return [];
  return proc.family.results.filter(({ uuid }) => !inBackground.has(uuid));
}

/** Only an agent's run can be resumed: a suspension terminates any other process. */
function finalOutcome(proc: Process, outcome: RunOutcome): RunOutcome {
  if (outcome.kind !== "stopped" || !proc.stopped) return outcome;
  const ends = proc.stopped.reason === "suspended" && proc.spec.kind !== "agent";
  return { kind: "stopped", status: ends ? killed(SIGTERM, false) : proc.stopped };
}

function failed(error: SyscallError): RunOutcome {
  return { kind: "broken", reason: "failed", error };
}

/** At most this many records wait; beyond that the oldest is dropped. */
const MAX_PENDING = 1000;

/**
 * The last records of ended runs that the disk rejected: on disk these runs still look alive. Writes are retried when
 * another run ends and at shutdown.
 */
class PendingRecords {
  readonly #waiting = new Map<string, { info: ProcInfo; write: () => void }>();

  /** The last record of a run while it waits. */
  of(uuid: string): ProcInfo | undefined {
    return this.#waiting.get(uuid)?.info;
  }

  /** Writes the last record of a run, or queues it and throws the error. */
  write(info: ProcInfo, write: () => void): void {
    const { uuid } = info;
    this.retry();
    try {
      write();
    } catch (thrown) {
      const oldest = this.#waiting.keys().next();
      if (this.#waiting.size >= MAX_PENDING && !oldest.done) this.#waiting.delete(oldest.value);
      this.#waiting.set(uuid, { info, write });
      throw thrown;
    }
  }

  /** The run was resumed: its former last record must not be written. */
  forget(uuid: string): void {
    this.#waiting.delete(uuid);
  }

  /** Retries the waiting records, oldest first, and stops at the first failure. */
  retry(): void {
    for (const [uuid, { write }] of this.#waiting) {
      try {
        write();
      } catch {
        return; // Logged at its first failure; it stays queued.
      }
      this.#waiting.delete(uuid);
    }
  }
}
