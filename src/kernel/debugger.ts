/** Records syscalls, and streams them to tracers. */

import { Channel } from "../lib/channel.ts";
import type { Clock } from "../lib/clock.ts";
import { SyscallError } from "../plugin/index.ts";
import { namedError } from "./errors/kernel-errors.ts";
import type { Process } from "./process/process.ts";
import type { ProcessTable } from "./process/process-table.ts";
import type { PID, SyscallEvent } from "./types.ts";

type SyscallOutcome = Pick<SyscallEvent, "result" | "error" | "error_code">;

/** Live events a tracer may lag behind by. The record on disk has them all. */
const TRACE_BUFFER = 256;

/**
 * Records every syscall: in full in the process's record, and live through channels that may drop events. A syscall is
 * whatever runs inside `call`. PID 0's syscalls about no live process stay in memory, the newest ones.
 */
export class Debugger {
  readonly #clock: Clock;
  readonly #table: Pick<ProcessTable, "find">;
  readonly #startedMono: number;
  readonly #ofPid0: SyscallEvent[] = [];
  readonly #pid0Tracers = new Set<Channel<SyscallEvent>>();

  constructor(clock: Clock, table: Pick<ProcessTable, "find">) {
    this.#clock = clock;
    this.#table = table;
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

  end(): void {
    for (const tracer of [...this.#pid0Tracers]) tracer.end();
  }

  /** Recent syscalls of PID 0, oldest first; times are ms since the kernel's start. */
  get ofPid0(): readonly SyscallEvent[] {
    return this.#ofPid0;
  }

  /**
   * Runs one syscall and records its outcome. Rethrows an error as a SyscallError that names the syscall, the process
   * and the device. `result` gives the short form of a value for the record, which has numbers and texts as they are.
   */
  call<T>(
    proc: Process,
    syscall: string,
    args: Record<string, unknown>,
    run: () => Promise<T> | T,
    result?: (value: T) => unknown,
  ): Promise<T> {
    return this.callFor(proc, proc, syscall, args, run, result);
  }

  /**
   * A call for the process `by`, or for PID 0 without one: for a user's command or the kernel itself. A call of PID 0 is
   * in the record of the process that it is about, while that process lives.
   */
  async callFor<T>(
    by: Process | undefined,
    about: Process | PID | undefined,
    syscall: string,
    args: Record<string, unknown>,
    run: () => Promise<T> | T,
    result: (value: T) => unknown = resultOf,
  ): Promise<T> {
    const { record, failed } = this.#beginCall(by, about, syscall, args);
    try {
      const value = await run();
      record({ result: result(value) });
      return value;
    } catch (thrown) {
      throw failed(thrown);
    }
  }

  /** Does the same for a synchronous call. */
  callNow<T>(
    by: Process | undefined,
    about: Process | PID | undefined,
    syscall: string,
    args: Record<string, unknown>,
    run: () => T,
    result: (value: T) => unknown = resultOf,
  ): T {
    const { record, failed } = this.#beginCall(by, about, syscall, args);
    try {
      const value = run();
      record({ result: result(value) });
      return value;
    } catch (thrown) {
      throw failed(thrown);
    }
  }

  /** Records a failure outside a call: of the process `by`, or of a call of PID 0 that left no process. */
  failed(
    by: Process | undefined,
    about: Process | undefined,
    name: string,
    args: Record<string, unknown>,
    { message, code }: SyscallError,
  ): void {
    this.#begin(by, about, name, args)({ error: message, error_code: code });
  }

  #beginCall(
    by: Process | undefined,
    about: Process | PID | undefined,
    syscall: string,
    args: Record<string, unknown>,
  ) {
    const subject = typeof about === "number" ? this.#table.find(about) : about;
    const record = this.#begin(by, subject, syscall, args);
    const failed = (thrown: unknown): SyscallError => {
      const error = namedError(thrown, syscall, (subject ?? by)?.pid ?? 0);
      record({ error: error.message, error_code: error.code });
      return error;
    };
    return { record, failed };
  }

  /** Starts a call; the returned function records its outcome. */
  #begin(
    by: Process | undefined,
    about: Process | undefined,
    syscall: string,
    args: Record<string, unknown>,
  ): (outcome: SyscallOutcome) => void {
    if (!by) return this.#beginOfPid0(about, syscall, args);
    if (by.pid === 0) {
      const record = this.#beginOfPid0(undefined, syscall, args);
      return (outcome) => record(redacted(by, outcome));
    }
    const startedMs = by.sinceSpawnMs();
    return (outcome) => this.#emit(by, eventOf(by.pid, syscall, args, startedMs, by.sinceSpawnMs(), outcome));
  }

  #beginOfPid0(
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
      const own = { ...args, by: 0 };
      const event = eventOf(live?.pid ?? 0, syscall, own, startedMs - shift, since() - shift, outcome);
      if (live) this.#emit(live, event);
      else this.#keepOfPid0(event);
    };
  }

  #emit(proc: Process, made: SyscallEvent): void {
    const event = redacted(proc, made);
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

/** What the record has of a value: nothing of an object. */
function resultOf(value: unknown): unknown {
  return typeof value === "object" && value !== null ? undefined : value;
}

function redacted<T extends SyscallOutcome>({ secrets }: Process, outcome: T): T {
  return outcome.error ? { ...outcome, error: secrets.hide(outcome.error) } : outcome;
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
    duration_ms: Math.round((endedMs - startedMs) * 1000) / 1000,
  };
}
