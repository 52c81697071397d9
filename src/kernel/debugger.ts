/** Records syscalls, and streams them to tracers. */

import { Channel } from "../lib/channel.ts";
import type { Clock } from "../lib/clock.ts";
import { SyscallError } from "../plugin/index.ts";
import { namedError } from "./errors/named-error.ts";
import type { Process } from "./process/process.ts";
import type { SyscallEvent } from "./types.ts";

type SyscallOutcome = Pick<SyscallEvent, "result" | "error" | "error_code">;

/** Live events a tracer may lag behind by (seeds 1.5). The record on disk has them all. */
const TRACE_BUFFER = 256;

/**
 * Records every syscall: in full in the process's record, and live through channels that may drop events. A syscall is
 * whatever runs inside `call`. PID 0's syscalls about no live process stay in memory, the newest ones.
 */
export class Debugger {
  readonly #clock: Clock;
  readonly #startedMono: number;
  readonly #ofPid0: SyscallEvent[] = [];
  readonly #pid0Tracers = new Set<Channel<SyscallEvent>>();

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#startedMono = clock.monotonic();
  }

  /** The AttachDebug syscall: live events from now on, until the process is reaped. */
  attach(proc: Process): Channel<SyscallEvent> {
    const channel: Channel<SyscallEvent> = new Channel(TRACE_BUFFER, () => proc.tracers.delete(channel));
    proc.tracers.add(channel);
    return channel;
  }

  /** AttachDebug of PID 0, which has no record: first its recent events. Ends with the kernel. */
  attachPid0(): Channel<SyscallEvent> {
    const channel: Channel<SyscallEvent> = new Channel(2 * TRACE_BUFFER, () =>
      this.#pid0Tracers.delete(channel),
    );
    for (const event of this.#ofPid0) channel.push(event);
    this.#pid0Tracers.add(channel);
    return channel;
  }

  /** Ends the channels of PID 0 with the kernel. */
  end(): void {
    for (const tracer of [...this.#pid0Tracers]) tracer.end();
  }

  /** Recent syscalls of PID 0, oldest first; times are ms since the kernel's start. */
  get ofPid0(): readonly SyscallEvent[] {
    return this.#ofPid0;
  }

  /**
   * A call that PID 0 makes: for a user's command or the kernel itself. The record of the process that it is about has
   * the event, while that process lives.
   */
  callByPid0<T>(
    about: Process | undefined,
    syscall: string,
    args: Record<string, unknown>,
    run: () => T,
    result: (value: T) => unknown = () => undefined,
  ): T {
    return outcomeOf(run, result, syscall, about?.pid ?? 0, this.#ofPid0Call(about, syscall, args));
  }

  /** The same for an asynchronous call: recorded when it is over. */
  awaitByPid0<T>(
    about: Process | undefined,
    syscall: string,
    args: Record<string, unknown>,
    run: () => Promise<T>,
    result: (value: T) => unknown = () => undefined,
  ): Promise<T> {
    return awaitOutcome(run, result, syscall, about?.pid ?? 0, this.#ofPid0Call(about, syscall, args));
  }

  /** Records a failed call that left no process. */
  failed(
    about: Process | undefined,
    syscall: string,
    args: Record<string, unknown>,
    error: SyscallError,
  ): void {
    this.#ofPid0Call(about, syscall, args)({ error: error.message, error_code: error.code });
  }

  /** Records a failure of the process that no call of it brought about. */
  failure(proc: Process, name: string, args: Record<string, unknown>, error: SyscallError): void {
    this.#callOf(proc, name, args)({ error: error.message, error_code: error.code });
  }

  /**
   * A synchronous call, recorded for the process `by`, or for PID 0 without one.
   */
  callNow<T>(
    by: Process | undefined,
    about: Process | undefined,
    syscall: string,
    args: Record<string, unknown>,
    run: () => T,
    result: (value: T) => unknown = () => undefined,
  ): T {
    if (!by) return this.callByPid0(about, syscall, args, run, result);
    return outcomeOf(run, result, syscall, about?.pid ?? by.pid, this.#callOf(by, syscall, args));
  }

  /**
   * Runs one syscall and records its outcome. Rethrows an error as a SyscallError that names the syscall, the process
   * and the device; `result` gives the short form for the record.
   */
  call<T>(
    proc: Process,
    syscall: string,
    args: Record<string, unknown>,
    run: () => Promise<T> | T,
    result: (value: T) => unknown = () => undefined,
  ): Promise<T> {
    return awaitOutcome(run, result, syscall, proc.pid, this.#callOf(proc, syscall, args));
  }

  /** Starts a call of a process; the returned function records its outcome. */
  #callOf(proc: Process, syscall: string, args: Record<string, unknown>): (outcome: SyscallOutcome) => void {
    if (proc.pid === 0) {
      const record = this.#ofPid0Call(undefined, syscall, args);
      return ({ error, ...outcome }) =>
        record({ ...outcome, ...(error && { error: proc.secrets.hide(error) }) });
    }
    const startedMs = proc.sinceSpawnMs();
    return (outcome) =>
      this.#emit(proc, eventOf(proc.pid, syscall, args, startedMs, proc.sinceSpawnMs(), outcome));
  }

  /** The same for a call of PID 0. */
  #ofPid0Call(
    about: Process | undefined,
    syscall: string,
    args: Record<string, unknown>,
  ): (outcome: SyscallOutcome) => void {
    const since = (): number => this.#clock.monotonic() - this.#startedMono;
    const startedMs = since();
    const spawnedMs = about ? startedMs - about.sinceSpawnMs() : 0;
    return (outcome) => {
      const live = about && (about.state === "created" || about.state === "running") ? about : undefined;
      const shift = live ? spawnedMs : 0;
      const event = eventOf(
        live?.pid ?? 0,
        syscall,
        { ...args, by: 0 },
        startedMs - shift,
        since() - shift,
        outcome,
      );
      if (live) this.#emit(live, event);
      else this.#keepOfPid0(event);
    };
  }

  #emit(proc: Process, made: SyscallEvent): void {
    const event = made.error ? { ...made, error: proc.secrets.hide(made.error) } : made;
    this.#keep(proc, event);
    for (const tracer of proc.tracers) tracer.push(event);
  }

  #keepOfPid0(event: SyscallEvent): void {
    this.#ofPid0.push(event);
    if (this.#ofPid0.length > TRACE_BUFFER) this.#ofPid0.shift();
    for (const tracer of this.#pid0Tracers) tracer.push(event);
  }

  /**
   * A failed write of an event does not fail the syscall. The record keeps the event and retries with the step; a failure
   * then ends the run.
   */
  #keep(proc: Process, event: SyscallEvent): void {
    try {
      proc.record.event(event);
    } catch (thrown) {
      if (!(thrown instanceof SyscallError)) throw thrown;
    }
  }
}

/** Runs a call to its end, records its outcome, and rethrows its error with its name. */
function outcomeOf<T>(
  run: () => T,
  result: (value: T) => unknown,
  syscall: string,
  pid: number,
  record: (outcome: SyscallOutcome) => void,
): T {
  try {
    const value = run();
    record({ result: result(value) });
    return value;
  } catch (thrown) {
    throw failedOutcome(thrown, syscall, pid, record);
  }
}

async function awaitOutcome<T>(
  run: () => Promise<T> | T,
  result: (value: T) => unknown,
  syscall: string,
  pid: number,
  record: (outcome: SyscallOutcome) => void,
): Promise<T> {
  try {
    const value = await run();
    record({ result: result(value) });
    return value;
  } catch (thrown) {
    throw failedOutcome(thrown, syscall, pid, record);
  }
}

function failedOutcome(
  thrown: unknown,
  syscall: string,
  pid: number,
  record: (outcome: SyscallOutcome) => void,
): SyscallError {
  const error = namedError(thrown, syscall, pid);
  record({ error: error.message, error_code: error.code });
  return error;
}

function eventOf(
  pid: number,
  syscall: string,
  args: Record<string, unknown>,
  startedMs: number,
  endedMs: number,
  outcome: SyscallOutcome,
): SyscallEvent {
  return {
    timestamp_ms: Math.round(startedMs),
    pid,
    syscall,
    args,
    ...outcome,
    // Most syscalls take less than a ms.
    duration_ms: roundMs(endedMs - startedMs),
  };
}

function roundMs(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}
