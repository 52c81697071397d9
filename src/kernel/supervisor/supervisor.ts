/** The task of one supervisor. */

import { onceAborted } from "../../lib/clock.ts";
import { messageOf } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { Process } from "../process/process.ts";
import type { RunOutcome } from "../process/verdict.ts";
import type { ExitStatus, PID } from "../types.ts";
import { type Ask, type SupervisorParts, startChild, stopChild } from "./child-process.ts";
import { RestartDelays, rulesFor } from "./restart-policy.ts";
import { type PendingRestart, RestartSchedule } from "./restart-schedule.ts";
import {
  notRestarted,
  type Slot,
  type SupervisedChild,
  slotOf,
  startsWithGroup,
  stateAfterStop,
  supervisedChild,
} from "./slot.ts";
import { type SupervisorSpec, shutdownOf } from "./spec.ts";

type Work =
  | { kind: "exit"; slot: Slot; proc: Process; exit: ExitStatus }
  | { kind: "due"; restart: PendingRestart }
  | { kind: "resumed"; proc: Process }
  | { kind: "suspended_end"; uuid: string; exit: ExitStatus }
  | { kind: "requested"; slot: Slot; started: PromiseWithResolvers<PID> };

/**
 * The task of one supervisor. Like OTP's, it handles one event at a time; further events are queued, and the end of a
 * process that is no longer a child's is ignored.
 *
 * It differs from OTP in three points. Each restart has a growing delay. A child that finished cleanly waits until the
 * window has room, so clean ends alone never exceed the limit. A supervisor whose children have all ended for good ends.
 */
export class Supervisor {
  readonly #proc: Process;
  readonly #spec: SupervisorSpec;
  readonly #parts: SupervisorParts;
  readonly #slots: readonly Slot[];
  readonly #schedule: RestartSchedule;
  readonly #work: Work[] = [];
  /** Resolved by SIGKILL: it no longer waits for the grace of any child. */
  readonly #hurry = Promise.withResolvers<void>();
  #wake = Promise.withResolvers<void>();
  /** The supervisor is ending and accepts no more requests. */
  #ending = false;

  constructor(proc: Process, spec: SupervisorSpec, parts: SupervisorParts) {
    this.#proc = proc;
    this.#spec = spec;
    this.#parts = parts;
    const rules = rulesFor(spec);
    const delays = { ...rules, backoff: spec.backoff ?? rules.backoff };
    this.#slots = spec.children.map((child) =>
      slotOf(child, new RestartDelays(delays, () => parts.random())),
    );
    this.#schedule = new RestartSchedule({
      limit: spec,
      clock: parts.clock,
      own: proc.clock,
      group: (slot) => this.#group(slot),
      due: (restart) => this.#post({ kind: "due", restart }),
    });
  }

  children(): SupervisedChild[] {
    return this.#slots.map((slot) =>
      supervisedChild(slot, slot.state === "waiting" ? this.#schedule.dueInMs(slot) : null),
    );
  }

  /** Ends the child's process, if any, and starts the child again; does not count towards the limit. */
  restartChild(id: string): Promise<PID> {
    const { pid, stopped, paused } = this.#proc;
    const slot = this.#slots.find(({ spec }) => spec.id === id);
    if (!slot) {
      const message = `Supervisor ${pid} has no child ${id}. Its children are: ${this.#ids().join(", ")}.`;
      throw new SyscallError("NOT_FOUND", message);
    }
    if (this.#ending || stopped) throw endingError(pid);
    if (paused) {
      const message = `Supervisor ${pid} is paused and starts nothing. Continue it first: \`rnix continue ${pid}\`.`;
      throw new SyscallError("UNAVAILABLE", message);
    }
    const started = Promise.withResolvers<PID>();
    this.#post({ kind: "requested", slot, started });
    return started.promise;
  }

  /** A run was resumed below this supervisor: it may be a suspended child's. */
  onResumed(proc: Process): void {
    this.#post({ kind: "resumed", proc });
  }

  /** A suspended run was ended: if it is a child's, the child has ended with this status. */
  onSuspendedEnd(uuid: string, exit: ExitStatus): void {
    this.#post({ kind: "suspended_end", uuid, exit });
  }

  /** `started` resolves when all children run. It rejects when one does not start, after ending the others. */
  async run(started: PromiseWithResolvers<void>): Promise<RunOutcome> {
    const ignore = onceAborted(this.#proc.signal, () => this.#wake.resolve());
    this.#proc.onKill = () => this.#hurry.resolve();
    try {
      const failure = await this.#startAll();
      if (!failure) {
        started.resolve();
        return await this.#supervise();
      }
      await this.#stopAll();
      started.reject(failure);
      return this.#stopped() ?? { kind: "broken", reason: "failed", error: failure };
    } finally {
      ignore();
      this.#close();
      // After a defect, callers that wait must not wait forever.
      started.reject(endingError(this.#proc.pid));
    }
  }

  async #supervise(): Promise<RunOutcome> {
    while (!this.#slots.every(({ state }) => state === "ended")) {
      const work = await this.#next();
      const within = work !== undefined && (await this.#do(work));
      if (within) continue;
      // Before its children end: restarts and requests are refused from here on.
      this.#close();
      await this.#stopAll();
      const error = tooManyError(this.#proc.pid, this.#spec);
      return this.#stopped() ?? { kind: "broken", reason: "max_restarts_exceeded", error };
    }
    return { kind: "finished" };
  }

  /** The next event; undefined when it must stop. Waits while it is paused. */
  async #next(): Promise<Work | undefined> {
    for (;;) {
      await this.#proc.gate();
      if (this.#parts.drain.isOn) await this.#parts.drain.waitForSuspend(this.#proc);
      if (this.#proc.stopped) return undefined;
      const work = this.#work.shift();
      if (work) return work;
      await this.#wake.promise;
      this.#wake = Promise.withResolvers<void>();
    }
  }

  #post(work: Work): void {
    this.#work.push(work);
    this.#wake.resolve();
  }

  /** False: the restart limit is exceeded. */
  async #do(work: Work): Promise<boolean> {
    switch (work.kind) {
      case "exit":
        return await this.#exited(work.slot, work.proc, work.exit);
      case "due":
        return !this.#schedule.take(work.restart) || !(await this.#startGroup(work.restart)).tooMany;
      case "resumed":
        await this.#onRunResumed(work.proc);
        return true;
      case "suspended_end":
        return await this.#endSuspended(work.uuid, work.exit);
      case "requested":
        try {
          return await this.#restartRequested(work.slot, work.started);
        } catch (thrown) {
          work.started.reject(thrown);
          throw thrown;
        }
    }
  }

  /** Starts all in order, until one fails. */
  async #startAll(): Promise<SyscallError | undefined> {
    const { name, strategy, intensity, periodMs } = this.#spec;
    const args = { name, strategy, intensity, period_ms: periodMs, children: this.#ids() };
    const start = async (): Promise<void> => {
      for (const slot of this.#slots) await this.#start(slot);
    };
    return failureOf(this.#event("SpawnSupervisor", args, start, () => this.#proc.pid));
  }

  /** Starts a child, or throws an error that names it. */
  async #start(slot: Slot): Promise<void> {
    await this.#proc.gate();
    if (this.#parts.drain.isOn) await this.#parts.drain.waitForSuspend(this.#proc);
    if (this.#proc.stopped) throw endingError(this.#proc.pid);
    const { id } = slot.spec;
    const start = (): Promise<Process> =>
      startChild(this.#parts, this.#proc, slot.spec).catch((thrown: unknown) => {
        throw startError(this.#spec.name, id, thrown);
      });
    const proc = await this.#event("SupervisorStart", { child: id }, start, ({ pid }) => pid);
    slot.starts++;
    this.#attach(slot, proc);
  }

  /** Makes a process the child's until it ends. */
  #attach(slot: Slot, proc: Process): void {
    slot.proc = proc;
    slot.uuid = proc.uuid;
    slot.state = "running";
    slot.startedAt = this.#parts.clock.monotonic();
    void proc.done.then((exit) => this.#post({ kind: "exit", slot, proc, exit }));
  }

  /** Does not count as a restart: nothing has failed. */
  async #onRunResumed(proc: Process): Promise<void> {
    const slot = this.#waitingFor(proc.uuid);
    if (!slot) return;
    this.#attach(slot, proc);
    await this.#note("SupervisorStart", { child: slot.spec.id, suspended: true }, proc.pid);
  }

  async #endSuspended(uuid: string, exit: ExitStatus): Promise<boolean> {
    const slot = this.#waitingFor(uuid);
    if (!slot) return true;
    slot.exit = exit;
    return await this.#decide(slot, null, exit);
  }

  #waitingFor(run: string): Slot | undefined {
    return this.#slots.find(({ state, uuid }) => state === "suspended" && uuid === run);
  }

  async #exited(slot: Slot, proc: Process, exit: ExitStatus): Promise<boolean> {
    if (slot.proc !== proc) return true;
    await this.#parts.runner.reap(proc);
    this.#detach(slot, proc, exit);
    return await this.#decide(slot, proc.pid, exit);
  }

  /** Applies the child's policy to an end. False: the restart limit is exceeded. */
  async #decide(slot: Slot, pid: PID | null, exit: ExitStatus): Promise<boolean> {
    const final = notRestarted(slot, exit);
    if (!final) return await this.#recover(slot, pid, exit);
    slot.state = final.state;
    await this.#decided(slot, pid, exit, final.because);
    return true;
  }

  /**
   * The child failed, or did not start (no PID): ends its group and schedules the restart. False: the restart limit is
   * exceeded.
   */
  async #recover(slot: Slot, pid: PID | null, exit: ExitStatus | null): Promise<boolean> {
    slot.state = "waiting";
    const clean = exit?.code === 0;
    const upMs = exit ? this.#parts.clock.monotonic() - slot.startedAt : 0;
    const delayMs = this.#schedule.onExit(slot, clean, upMs);
    const { intensity, periodMs } = this.#spec;
    if (delayMs === null) {
      await this.#decided(slot, pid, exit, "one restart too many");
      await this.#note("SupervisorGiveUp", { intensity, period_ms: periodMs }, "max_restarts_exceeded");
      return false;
    }
    const used = `${this.#schedule.count} of ${intensity} in ${periodMs} ms`;
    await this.#decided(slot, pid, exit, `restart in ${Math.round(delayMs)} ms (${used})`);
    for (const member of this.#group(slot).reverse()) {
      if (await this.#stop(member, "terminate")) member.state = stateAfterStop(member);
    }
    this.#schedule.add(slot, delayMs, !clean);
    return true;
  }

  /** The slots that restart with a slot, itself included, in the order of their start. */
  #group(slot: Slot): Slot[] {
    switch (this.#spec.strategy) {
      case "one_for_one":
        return [slot];
      case "one_for_all":
        return [...this.#slots];
      case "rest_for_one":
        return this.#slots.slice(this.#slots.indexOf(slot));
    }
  }

  /** Stops at the first child that does not start, which counts as a new failure. */
  async #startGroup({ slot }: PendingRestart): Promise<{ failure?: SyscallError; tooMany?: boolean }> {
    const down = this.#group(slot).filter(startsWithGroup);
    await this.#note("SupervisorRestart", { children: down.map(({ spec }) => spec.id) });
    for (const next of down) {
      const failure = await failureOf(this.#start(next));
      if (this.#proc.stopped) return { failure: endingError(this.#proc.pid) };
      if (failure) return { failure, tooMany: !(await this.#recover(next, null, null)) };
    }
    return {};
  }

  /** A requested restart: of the child alone, or of its waiting group. Running siblings are left alone. */
  async #restartRequested(slot: Slot, started: PromiseWithResolvers<PID>): Promise<boolean> {
    const pending = slot.state === "waiting" ? this.#schedule.of(slot) : undefined;
    if (pending) this.#schedule.cancel(pending);
    const { failure, tooMany } = await (pending ? this.#startGroup(pending) : this.#startAnew(slot));
    if (slot.proc && !failure) started.resolve(slot.proc.pid);
    else started.reject(failure ?? endingError(this.#proc.pid));
    return !tooMany;
  }

  /** If the start fails, a child that had run is restarted as after a failure; an ended one stays ended. */
  async #startAnew(slot: Slot): Promise<{ failure?: SyscallError; tooMany?: boolean }> {
    await this.#note("SupervisorRestart", { children: [slot.spec.id] });
    const ran = await this.#stop(slot, "terminate");
    if (ran) slot.state = stateAfterStop(slot);
    const failure = await failureOf(this.#start(slot));
    if (!failure || slot.state !== "waiting" || this.#proc.stopped) return { failure };
    return { failure, tooMany: !(await this.#recover(slot, null, null)) };
  }

  /** Ends all running children, the last started first. */
  async #stopAll(): Promise<void> {
    const { stopped } = this.#proc;
    const ask = stopped?.reason === "suspended" ? stopped : "terminate";
    for (const slot of [...this.#slots].reverse()) await this.#stop(slot, ask);
  }

  /** False when the child has no process. */
  async #stop(slot: Slot, ask: Ask): Promise<boolean> {
    const { proc } = slot;
    if (!proc) return false;
    const shutdown = shutdownOf(slot.spec);
    const { exit } = await this.#event(
      "SupervisorStop",
      { child: slot.spec.id, pid: proc.pid, shutdown },
      () => stopChild(this.#parts, this.#proc, proc, { shutdown, ask, hurry: this.#hurry.promise }),
      (end) => `${end.exit.reason}${end.killed ? ", it had to be killed" : ""}`,
    );
    this.#detach(slot, proc, exit);
    return true;
  }

  /** Detaches a reaped process. The list of results is bounded, because a supervisor may live for years. */
  #detach(slot: Slot, proc: Process, exit: ExitStatus): void {
    slot.proc = undefined;
    slot.exit = exit;
    const { family } = this.#proc;
    family.remove(proc.pid);
    family.results.splice(0, family.results.length - RESULTS_KEPT);
  }

  /** Records an end or a failed start, and the decision that follows. */
  #decided(slot: Slot, pid: PID | null, exit: ExitStatus | null, decision: string): Promise<void> {
    const { code: exit_code = null, reason: exit_reason = null } = exit ?? {};
    return this.#note("SupervisorExit", { child: slot.spec.id, pid, exit_code, exit_reason }, decision);
  }

  #note(syscall: string, args: Record<string, unknown>, result?: unknown): Promise<void> {
    return this.#event(
      syscall,
      args,
      () => {},
      () => result,
    );
  }

  /** Records what it did and why in its own record: at once, because a supervisor has no steps. Rethrows the error. */
  async #event<T>(
    syscall: string,
    args: Record<string, unknown>,
    run: () => Promise<T> | T,
    result: (value: T) => unknown,
  ): Promise<T> {
    const { debug, warn } = this.#parts;
    try {
      return await debug.call(this.#proc, syscall, args, run, result);
    } finally {
      try {
        this.#proc.record.flush();
      } catch (thrown) {
        warn(`PID ${this.#proc.pid}`, `its last events are not on disk yet: ${String(thrown)}`);
      }
    }
  }

  /** Cancels pending restarts and rejects requested ones. */
  #close(): void {
    this.#ending = true;
    this.#schedule.clear();
    for (const work of this.#work.splice(0)) {
      if (work.kind === "requested") work.started.reject(endingError(this.#proc.pid));
    }
  }

  /** The outcome if it was stopped, which takes precedence over any other. */
  #stopped(): RunOutcome | undefined {
    return this.#proc.stopped && { kind: "stopped", status: this.#proc.stopped };
  }

  #ids(): string[] {
    return this.#slots.map(({ spec }) => spec.id);
  }
}

/** The error with which a start fails; undefined when it succeeds. */
async function failureOf(start: Promise<void>): Promise<SyscallError | undefined> {
  try {
    await start;
    return undefined;
  } catch (thrown) {
    if (thrown instanceof SyscallError) return thrown;
    throw thrown;
  }
}

/** Maximum results of ended children in the supervisor's record. */
const RESULTS_KEPT = 100;

function startError(supervisor: string, child: string, thrown: unknown): SyscallError {
  return new SyscallError(
    thrown instanceof SyscallError ? thrown.code : "INTERNAL",
    `Supervisor ${supervisor}: its child ${child} did not start: ${messageOf(thrown)}`,
    { cause: thrown },
  );
}

function tooManyError(pid: PID, { name, intensity, periodMs }: SupervisorSpec): SyscallError {
  const message = `Supervisor ${name} gave up: its children needed more than ${intensity} restarts within ${periodMs / 1000} s. \`rnix strace ${pid}\` shows how they ended.`;
  return new SyscallError("EXHAUSTED", message);
}

function endingError(pid: PID): SyscallError {
  return new SyscallError("CLOSED", `Supervisor ${pid} is ending and starts nothing.`);
}
