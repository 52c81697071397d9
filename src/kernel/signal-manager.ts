import type { Clock, Timer } from "../lib/clock.ts";
import type { Children } from "../os/children.ts";
import { SyscallError } from "../plugin/index.ts";
import type { Debugger } from "./debugger.ts";
import type { Process } from "./process/process.ts";
import type { ProcessTable } from "./process/process-table.ts";
import type { ResourceHolder } from "./process/resource-holder.ts";
import { killed } from "./process/verdict.ts";
import type { PID, Signal } from "./types.ts";
import { SIGINT, SIGKILL, SIGPAUSE, SIGRESUME, SIGTERM } from "./types.ts";

interface SignalManagerPorts {
  table: ProcessTable;
  children: Pick<Children, "hurryOwner">;
  debug: Debugger;
  clock: Clock;
  /** Puts a change of the process on disk. */
  saveInfo(proc: Process): Promise<void>;
  warn(source: string, text: string): void;
}

/**
 * What a process does with a signal instead of the default. It is called at once, also while the process is
 * paused, and whatever becomes of it the signal counts as taken: the default does not follow.
 */
type SignalHandler = (signal: Signal) => void | Promise<void>;

/** What became of a signal: it waits behind a block, went to the handler, or did what it does by default. */
export type Disposition = "pending" | "handled" | "default";

/** How far an end goes: `tree` ends what the process has spawned too, `alone` leaves that to PID 0. */
type Reach = "tree" | "alone";

/** What a process has said about signals; made with its first word. */
class SignalState {
  readonly handlers = new Map<Signal, SignalHandler>();
  readonly blocked = new Set<Signal>();
  /** One per kind, however often it came; an end that is to go further counts. */
  readonly pending = new Map<Signal, Reach>();
  /** One for each handler that has not come back. */
  readonly waits = new Set<Timer>();
}

/**
 * Signal, SigHandle, SigBlock, SigUnblock (seeds 002 §8.2), and how signals reach trees and groups.
 *
 * A signal is decided on and acted on in one synchronous piece, so nothing comes between the two: a blocked
 * one becomes pending, else the process's handler takes it, else it does what it does by default. TERM, INT and
 * KILL end the process, PAUSE and RESUME stop its clock and set it going. KILL is neither blocked nor handled.
 * As in POSIX, PAUSE and RESUME undo each other where they wait behind a block. What is pending when the process
 * ends is dropped: its end was decided by something else.
 */
export class SignalManager implements ResourceHolder {
  readonly #ports: SignalManagerPorts;
  readonly #states = new Map<Process, SignalState>();

  constructor(ports: SignalManagerPorts) {
    this.#ports = ports;
  }

  /**
   * Delivers a signal; `by` is the process that sends it, none is PID 0. NOT_FOUND for a process that has ended,
   * INVALID for a signal that does not exist.
   */
  signal(pid: PID, signal: Signal, by?: Process): Disposition {
    return this.#call(by, pid, "Signal", { pid, signal }, () => {
      assertSignal(signal);
      return this.deliver(this.#alive(pid), signal);
    });
  }

  /** Has `handler` called instead of the default, for every further one; null is the default again. */
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

  /** Delivers at once what is pending of it; the answer says what became of that, undefined when nothing was. */
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

  /** Sends a signal to a process and all below it, parents first; returns how many it reached. */
  signalTree(pid: PID, signal: Signal, by?: Process): number {
    const { table } = this.#ports;
    return this.signalAll(table.tree(table.get(pid)), signal, by);
  }

  /** Sends a signal to each of them that has not ended; returns how many it reached. */
  signalAll(procs: readonly Process[], signal: Signal, by?: Process): number {
    assertSignal(signal);
    const reached = procs.filter(isAlive);
    for (const proc of reached) this.signal(proc.pid, signal, by);
    return reached.length;
  }

  /** The signal of a syscall that records itself. The process has not ended. */
  deliver(proc: Process, signal: Signal, reach: Reach = "tree"): Disposition {
    const { disposition, handler } = this.#resolve(proc, signal, reach);
    if (handler) this.#handle(proc, signal, handler);
    else if (disposition === "default") this.#act(proc, signal, reach);
    return disposition;
  }

  /** Reap step 7 of the seeds: handlers, blocks and what is pending are forgotten. */
  clear(proc: Process): void {
    for (const wait of this.#states.get(proc)?.waits ?? []) wait.cancel();
    this.#states.delete(proc);
  }

  get size(): number {
    return this.#states.size;
  }

  /** The seeds' resolveSignalDisposition: the one decision, and nothing but it and what it changes. */
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
      if (proc.paused !== before && proc.state === "running") void this.#ports.saveInfo(proc);
      return;
    }
    // A supervisor's children are nobody else's: they end with it.
    if (reach === "alone" && proc.spec.kind !== "supervisor") this.#orphan(proc);
    // What still runs of a process that is suspended, or was asked to end, is not waited for any more.
    if (signal === SIGKILL || proc.stopped?.reason === "suspended")
      this.#ports.children.hurryOwner(proc.uuid);
    proc.stop(killed(signal, proc.paused));
  }

  /** Its children go on as PID 0's. One that is still being built has nobody else to end it, and stays. */
  #orphan(proc: Process): void {
    for (const pid of [...proc.children]) {
      const child = this.#ports.table.find(pid);
      if (child?.state !== "running") continue;
      proc.children.splice(proc.children.indexOf(child.pid), 1);
      child.ppid = 0;
      void this.#ports.saveInfo(child);
    }
  }

  /** A handler that throws or does not come back is told of, and nothing else: KILL still ends its process. */
  #handle(proc: Process, signal: Signal, handler: SignalHandler): void {
    const tell = (what: string): void =>
      this.#ports.warn(`PID ${proc.pid}`, `the handler of ${NAMES[signal]} ${what}`);
    const failed = (thrown: unknown): void => tell(`failed: ${String(thrown)}`);
    try {
      const work = handler(signal);
      if (work) this.#watch(proc, work.catch(failed), tell);
    } catch (thrown) {
      failed(thrown);
    }
  }

  /** In real time: a paused process's handlers run too. */
  #watch(proc: Process, work: Promise<void>, tell: (what: string) => void): void {
    const { waits } = this.#stateOf(proc);
    const ms = proc.spec.opts.limits.grace;
    const timer = this.#ports.clock.timer(ms, () => {
      waits.delete(timer);
      tell(`has not come back after ${ms} ms and is not waited for any more`);
    });
    waits.add(timer);
    void work.finally(() => {
      timer.cancel();
      waits.delete(timer);
    });
  }

  #stateOf(proc: Process): SignalState {
    const state = this.#states.get(proc) ?? new SignalState();
    this.#states.set(proc, state);
    return state;
  }

  #alive(pid: PID): Process {
    const proc = this.#ports.table.get(pid);
    if (isAlive(proc)) return proc;
    throw new SyscallError("NOT_FOUND", `Process ${pid} has ended and takes no signals.`, { pid });
  }

  /** A syscall that a process makes for itself. */
  #own<T>(pid: PID, syscall: string, args: Record<string, unknown>, run: (proc: Process) => T): T {
    const proc = this.#ports.table.find(pid);
    const by = proc && isAlive(proc) ? proc : undefined;
    return this.#call(by, pid, syscall, args, () => run(this.#alive(pid)));
  }

  #call<T>(
    by: Process | undefined,
    about: PID,
    syscall: string,
    args: Record<string, unknown>,
    run: () => T,
  ): T {
    const { debug, table } = this.#ports;
    return debug.callNow(by, table.find(about), syscall, args, run, (value) => value);
  }
}

const NAMES: Readonly<Record<Signal, string>> = {
  [SIGTERM]: "SIGTERM",
  [SIGKILL]: "SIGKILL",
  [SIGINT]: "SIGINT",
  [SIGPAUSE]: "SIGPAUSE",
  [SIGRESUME]: "SIGRESUME",
};

/** The type says so already; a number from elsewhere may not. */
export function assertSignal(signal: Signal): void {
  if (Object.hasOwn(NAMES, signal)) return;
  throw new SyscallError(
    "INVALID",
    `Signal ${String(signal)} does not exist. Expected 1 (TERM), 2 (KILL), 3 (INT), 4 (PAUSE) or 5 (RESUME).`,
  );
}

function assertCatchable(signal: Signal, how: "handled" | "blocked"): void {
  assertSignal(signal);
  if (signal !== SIGKILL) return;
  throw new SyscallError("INVALID", `SIGKILL can't be ${how}: it ends a process whatever that wants.`);
}

function isAlive(proc: Process): boolean {
  return proc.state === "created" || proc.state === "running";
}
