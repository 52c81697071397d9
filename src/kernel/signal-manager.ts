/** The syscalls of signals. */

import type { Timer } from "../lib/clock.ts";
import type { Signal } from "../lib/signals.ts";
import { SIGINT, SIGKILL, SIGPAUSE, SIGRESUME, SIGTERM } from "../lib/signals.ts";
import { SyscallError } from "../plugin/index.ts";
import type { Process } from "./process/process.ts";
import type { ResourceHolder } from "./process/resource-holder.ts";
import { killed } from "./process/verdict.ts";
import type { Core } from "./tiers/core.ts";
import type { PID } from "./types.ts";

/**
 * What a process does with a signal instead of the default. It is called at once, also while the process is paused.
 * The default action does not follow, even when the handler fails.
 */
type SignalHandler = (signal: Signal) => void | Promise<void>;

/** How a signal was delivered: it is pending, was handled, or had its default action. */
export type Disposition = "pending" | "handled" | "default";

/** How far an end reaches: `tree` also ends the children, `alone` leaves them to PID 0. */
type Reach = "tree" | "alone";

/** The signal settings of a process; made by its first call. */
class SignalState {
  readonly handlers = new Map<Signal, SignalHandler>();
  readonly blocked = new Set<Signal>();
  /** The pending signals. A signal that came several times is in it once, with its widest reach. */
  readonly pending = new Map<Signal, Reach>();
  /** The timers of the running handlers. */
  readonly waits = new Set<Timer>();
}

/**
 * Signal, SigHandle, SigBlock, SigUnblock, and how signals reach trees and groups.
 *
 * Delivery is synchronous: a blocked signal becomes pending, else the process's handler takes it, else its default
 * action follows. TERM, INT and KILL end the process; PAUSE stops its clock and RESUME starts it. KILL can't be blocked
 * or handled. As in POSIX, a PAUSE removes a pending RESUME and the reverse. Pending signals are dropped at the end.
 */
export class SignalManager implements ResourceHolder {
  readonly #parts: Core;
  readonly #states = new Map<Process, SignalState>();

  constructor(parts: Core) {
    this.#parts = parts;
  }

  /**
   * Delivers a signal; `by` is the sending process, absent for PID 0. Fails with NOT_FOUND for an ended process and with
   * INVALID for an unknown signal.
   */
  signal(pid: PID, signal: Signal, by?: Process): Disposition {
    const deliver = (): Disposition => {
      assertSignal(signal);
      return this.deliver(this.#alive(pid), signal);
    };
    return this.#parts.debug.callNow(by, pid, "Signal", { pid, signal }, deliver);
  }

  /** Sets the handler of a signal; null restores the default action. */
  sigHandle(pid: PID, signal: Signal, handler: SignalHandler | null): void {
    const args = { pid, signal, handler: handler !== null };
    this.#own(pid, "SigHandle", args, (proc) => {
      assertCatchable(signal, "handled");
      if (handler) this.#stateOf(proc).handlers.set(signal, handler);
      else this.#states.get(proc)?.handlers.delete(signal);
    });
  }

  /** Makes the signal wait until it is unblocked. Safe to call again. */
  sigBlock(pid: PID, signal: Signal): void {
    this.#own(pid, "SigBlock", { pid, signal }, (proc) => {
      assertCatchable(signal, "blocked");
      this.#stateOf(proc).blocked.add(signal);
    });
  }

  /** Delivers a pending signal at once and returns its disposition; undefined when none was pending. */
  sigUnblock(pid: PID, signal: Signal): Disposition | undefined {
    return this.#own(pid, "SigUnblock", { pid, signal }, (proc) => {
      assertCatchable(signal, "blocked");
      const state = this.#states.get(proc);
      state?.blocked.delete(signal);
      const reach = state?.pending.get(signal);
      if (reach === undefined) return undefined;
      state?.pending.delete(signal);
      return this.deliver(proc, signal, reach);
    });
  }

  /** Sends a signal to a process and its descendants, parents first; returns how many it reached. */
  signalTree(pid: PID, signal: Signal, by?: Process): number {
    const { table } = this.#parts;
    return this.signalAll(table.tree(table.get(pid)), signal, by);
  }

  /** Sends a signal to each of them that has not ended; returns how many it reached. */
  signalAll(procs: readonly Process[], signal: Signal, by?: Process): number {
    assertSignal(signal);
    const reached = procs.filter(isAlive);
    for (const proc of reached) this.signal(proc.pid, signal, by);
    return reached.length;
  }

  /** The delivery inside a syscall that records itself. The process has not ended. */
  deliver(proc: Process, signal: Signal, reach: Reach = "tree"): Disposition {
    const { disposition, handler } = this.#resolve(proc, signal, reach);
    if (handler) this.#handle(proc, signal, handler);
    else if (disposition === "default") this.#act(proc, signal, reach);
    return disposition;
  }

  /** Step 7 of the reap: drops handlers, blocks and pending signals. */
  clear(proc: Process): void {
    for (const wait of this.#states.get(proc)?.waits ?? []) wait.cancel();
    this.#states.delete(proc);
  }

  get size(): number {
    return this.#states.size;
  }

  /** Decides what becomes of a signal, and updates the pending signals. */
  #resolve(
    proc: Process,
    signal: Signal,
    reach: Reach,
  ): { disposition: Disposition; handler?: SignalHandler } {
    const state = this.#states.get(proc);
    if (!state) return { disposition: "default" };
    if (signal === SIGPAUSE) state.pending.delete(SIGRESUME);
    if (signal === SIGRESUME) state.pending.delete(SIGPAUSE);
    if (state.blocked.has(signal)) {
      const wide = reach === "tree" || state.pending.get(signal) === "tree";
      state.pending.set(signal, wide ? "tree" : "alone");
      return { disposition: "pending" };
    }
    const handler = state.handlers.get(signal);
    return handler ? { disposition: "handled", handler } : { disposition: "default" };
  }

  #act(proc: Process, signal: Signal, reach: Reach): void {
    if (signal === SIGPAUSE || signal === SIGRESUME) {
      const before = proc.paused;
      if (signal === SIGPAUSE) proc.pause();
      else proc.resume();
      if (proc.paused !== before && proc.state === "running") void this.#parts.saveInfo(proc);
      return;
    }
    // The children of a supervisor always end with it.
    if (reach === "alone" && proc.spec.kind !== "supervisor") this.#orphan(proc);
    // A second request to end skips the grace of the process's programs.
    if (signal === SIGKILL || proc.stopped?.reason === "suspended")
      this.#parts.children.hurryOwner(proc.uuid);
    proc.stop(killed(signal, proc.paused));
  }

  /** Running children become PID 0's. A child that is still being built ends with its parent. */
  #orphan(proc: Process): void {
    for (const pid of [...proc.family.children]) {
      const child = this.#parts.table.find(pid);
      if (child?.state !== "running") continue;
      proc.family.remove(child.pid);
      child.family.ppid = 0;
      void this.#parts.saveInfo(child);
    }
  }

  /** A handler that throws or does not return is only logged: KILL still ends its process. */
  #handle(proc: Process, signal: Signal, handler: SignalHandler): void {
    const warn = (what: string): void =>
      this.#parts.warn(`PID ${proc.pid}`, `the handler of ${NAMES[signal]} ${what}`);
    const failed = (thrown: unknown): void => warn(`failed: ${String(thrown)}`);
    try {
      const work = handler(signal);
      if (work) this.#watch(proc, work.catch(failed), warn);
    } catch (thrown) {
      failed(thrown);
    }
  }

  /** In real time, because handlers also run while the process is paused. */
  #watch(proc: Process, work: Promise<void>, warn: (what: string) => void): void {
    const { waits } = this.#stateOf(proc);
    const ms = proc.spec.opts.limits.grace;
    const timer = this.#parts.clock.timer(ms, () => {
      waits.delete(timer);
      warn(`has not returned after ${ms} ms; the kernel no longer waits for it`);
    });
    waits.add(timer);
    void work.finally(() => {
      timer.cancel();
      waits.delete(timer);
    });
  }

  #stateOf(proc: Process): SignalState {
    return this.#states.getOrInsertComputed(proc, () => new SignalState());
  }

  #alive(pid: PID): Process {
    const proc = this.#parts.table.get(pid);
    if (isAlive(proc)) return proc;
    throw new SyscallError("NOT_FOUND", `Process ${pid} has ended and takes no signals.`, { pid });
  }

  /** A syscall that a process makes for itself. */
  #own<T>(pid: PID, syscall: string, args: Record<string, unknown>, run: (proc: Process) => T): T {
    const proc = this.#parts.table.find(pid);
    const by = proc && isAlive(proc) ? proc : undefined;
    return this.#parts.debug.callNow(by, pid, syscall, args, () => run(this.#alive(pid)));
  }
}

const NAMES: Readonly<Record<Signal, string>> = {
  [SIGTERM]: "SIGTERM",
  [SIGKILL]: "SIGKILL",
  [SIGINT]: "SIGINT",
  [SIGPAUSE]: "SIGPAUSE",
  [SIGRESUME]: "SIGRESUME",
};

/** Checked at run time too: the number may come from a client. */
export function assertSignal(signal: Signal): void {
  if (Object.hasOwn(NAMES, signal)) return;
  const message = `Signal ${String(signal)} does not exist. Expected 1 (TERM), 2 (KILL), 3 (INT), 4 (PAUSE) or 5 (RESUME).`;
  throw new SyscallError("INVALID", message);
}

function assertCatchable(signal: Signal, how: "handled" | "blocked"): void {
  assertSignal(signal);
  if (signal !== SIGKILL) return;
  throw new SyscallError("INVALID", `SIGKILL can't be ${how}: it always ends the process.`);
}

function isAlive(proc: Process): boolean {
  return proc.state === "created" || proc.state === "running";
}
