/** The record of what a supervisor did. */

import type { Process } from "../process/process.ts";
import type { Core } from "../tiers/core.ts";
import type { ExitStatus, PID } from "../types.ts";
import type { RestartLimit } from "./restart-policy.ts";

/**
 * Records what a supervisor did and why: events in its own record, written at once because a supervisor has no steps.
 */
export class Journal {
  readonly #proc: Process;
  readonly #parts: Core;

  constructor(proc: Process, parts: Core) {
    this.#proc = proc;
    this.#parts = parts;
  }

  /** Records the start of all children; rethrows its error. */
  began<T>(args: Record<string, unknown>, start: () => Promise<T>): Promise<T> {
    return this.#event("SpawnSupervisor", args, start, () => this.#proc.pid);
  }

  /** Records the start of a child; rethrows its error. */
  started(child: string, start: () => Promise<Process>): Promise<Process> {
    return this.#event("SupervisorStart", { child }, start, ({ pid }) => pid);
  }

  /** Records that the suspended run of a child was resumed. */
  async resumed(child: string, pid: PID): Promise<void> {
    await this.#event("SupervisorStart", { child, suspended: true }, noop, () => pid);
  }

  /** Records an end or a failed start, and the decision that follows. */
  async decided(child: string, pid: PID | null, exit: ExitStatus | null, decision: string): Promise<void> {
    const args = { child, pid, exit_code: exit?.code ?? null, exit_reason: exit?.reason ?? null };
    await this.#event("SupervisorExit", args, noop, () => decision);
  }

  /** Records that the supervisor ends a child. */
  stopped<T extends { exit: ExitStatus; killed: boolean }>(
    child: string,
    pid: PID,
    shutdown: number | string,
    stop: () => Promise<T>,
  ): Promise<T> {
    const result = ({ exit, killed }: T): string => `${exit.reason}${killed ? ", it had to be killed" : ""}`;
    return this.#event("SupervisorStop", { child, pid, shutdown }, stop, result);
  }

  /** Records a restart that is due or was requested. */
  async restarting(children: readonly string[]): Promise<void> {
    await this.#event("SupervisorRestart", { children }, noop, noop);
  }

  async gaveUp({ intensity, periodMs }: RestartLimit): Promise<void> {
    const args = { intensity, period_ms: periodMs };
    await this.#event("SupervisorGiveUp", args, noop, () => "max_restarts_exceeded");
  }

  async #event<T>(
    syscall: string,
    args: Record<string, unknown>,
    run: () => Promise<T> | T,
    result: (value: T) => unknown,
  ): Promise<T> {
    try {
      return await this.#parts.debug.call(this.#proc, syscall, args, run, result);
    } finally {
      this.#flush();
    }
  }

  #flush(): void {
    try {
      this.#proc.record.flush();
    } catch (thrown) {
      this.#parts.warn(`PID ${this.#proc.pid}`, `its last events are not on disk yet: ${String(thrown)}`);
    }
  }
}

const noop = (): undefined => undefined;
