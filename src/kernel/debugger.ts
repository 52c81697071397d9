import { SyscallError } from "../plugin/index.ts";
import { Channel } from "./channel.ts";
import { withDetail } from "./error-detail.ts";
import type { Process } from "./process.ts";
import type { SyscallEvent } from "./types.ts";

/** Live events a tracer may lag behind by (seeds 1.5). The record on disk has them all. */
const TRACE_BUFFER = 256;

/**
 * Records every syscall: on disk in full through the process's record, live to whoever is attached
 * through channels that drop. A syscall is whatever runs inside `call`.
 */
export class Debugger {
  /** The AttachDebug syscall: live events from now on, until the process is reaped. */
  attach(proc: Process): Channel<SyscallEvent> {
    const channel: Channel<SyscallEvent> = new Channel(TRACE_BUFFER, () => proc.tracers.delete(channel));
    proc.tracers.add(channel);
    return channel;
  }

  /**
   * Runs one syscall and records how it went. What it throws leaves as a SyscallError that names the
   * syscall, the process and the device; `result` is the short form that is recorded.
   */
  async call<T>(
    proc: Process,
    syscall: string,
    args: Record<string, unknown>,
    run: () => Promise<T> | T,
    result: (value: T) => unknown = () => undefined,
  ): Promise<T> {
    const startedMs = proc.sinceSpawnMs();
    try {
      const value = await run();
      this.#record(proc, syscall, args, startedMs, { result: result(value) });
      return value;
    } catch (thrown) {
      const error = namedError(thrown, syscall, proc.pid);
      this.#record(proc, syscall, args, startedMs, { error: error.message, error_code: error.code });
      throw error;
    }
  }

  #record(
    proc: Process,
    syscall: string,
    args: Record<string, unknown>,
    startedMs: number,
    outcome: Pick<SyscallEvent, "result" | "error" | "error_code">,
  ): void {
    const event: SyscallEvent = {
      timestamp_ms: roundMs(startedMs),
      pid: proc.pid,
      syscall,
      args,
      ...outcome,
      duration_ms: roundMs(proc.sinceSpawnMs() - startedMs),
    };
    this.#keep(proc, event);
    for (const tracer of proc.tracers) tracer.push(event);
  }

  /**
   * A syscall that was made has not failed because its event can't be written. The record keeps the event
   * and tries again with the step, and what fails then ends the run for what it is.
   */
  #keep(proc: Process, event: SyscallEvent): void {
    try {
      proc.record.event(event);
    } catch (thrown) {
      if (!(thrown instanceof SyscallError)) throw thrown;
    }
  }
}

/** The same error with the syscall and the process it belongs to; a foreign one becomes INTERNAL. */
export function namedError(thrown: unknown, syscall: string, pid: number): SyscallError {
  if (!(thrown instanceof SyscallError)) {
    const text = thrown instanceof Error ? thrown.message : String(thrown);
    return new SyscallError("INTERNAL", `${syscall}: ${text}`, { cause: thrown, syscall, pid });
  }
  if (thrown.syscall !== undefined) return thrown;
  return withDetail(thrown, { syscall, pid });
}

function roundMs(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}
