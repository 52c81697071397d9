/** The syscalls of init: the units of init.yaml. */

import { messageOf } from "../lib/error-detail.ts";
import { SyscallError } from "../plugin/index.ts";
import type { InitPlan, InitUnitStatus } from "./init/unit.ts";
import { type InitParts, InitUnit } from "./init/unit.ts";
import type { Process } from "./process/process.ts";
import type { ExitStatus } from "./types.ts";

export type { InitPlan, InitStart, InitState, InitUnitPlan, InitUnitStatus } from "./init/unit.ts";

/**
 * InitBoot, InitStatus: the units of init.yaml, which the system keeps running. It owns them until `stop`.
 * PID 0 makes both syscalls.
 */
export class InitManager {
  readonly #parts: InitParts;
  /** The units of each plan in the order of their start. */
  readonly #plans = new Map<InitPlan["project"], InitUnit[]>();
  readonly #boots = new Set<Promise<void>>();
  readonly #closing = new AbortController();
  #stopping: Promise<void> | undefined;

  constructor(parts: InitParts) {
    this.#parts = parts;
  }

  /**
   * Starts the units one after the other. A unit that does not start is logged and left out. If it is required, the
   * earlier ones are stopped in reverse order and the boot fails with UNAVAILABLE. A failed boot may be repeated; fails
   * with INVALID while some unit of the plan is up.
   */
  async initBoot(plan: InitPlan): Promise<void> {
    const args = { project: plan.project, units: plan.units.map(({ name }) => name) };
    const { debug } = this.#parts;
    const up = (names: string[]): string[] => names;
    const boot = debug.callFor(undefined, undefined, "InitBoot", args, () => this.#boot(plan), up);
    // The caller of initBoot gets the error.
    const over = boot.then(
      () => undefined,
      () => undefined,
    );
    this.#boots.add(over);
    await boot.finally(() => this.#boots.delete(over));
  }

  /** Every unit of every plan, in the order of their start. */
  initStatus(): InitUnitStatus[] {
    const look = (): InitUnitStatus[] => [...this.#plans.values()].flat().map((unit) => unit.status());
    return this.#parts.debug.callNow(undefined, undefined, "InitStatus", {}, look, ({ length }) => length);
  }

  /** Whether the process belongs to a unit, and so ends with it at shutdown. */
  owns(proc: Process): boolean {
    return [...this.#plans.values()].flat().some((unit) => unit.process === proc);
  }

  /** Starts no more units and cancels the current starts. */
  close(): void {
    this.#closing.abort(new SyscallError("CANCELLED", "The kernel is shutting down and brings nothing up."));
  }

  /**
   * Ends all units: those of projects side by side, then the user's, in each the last started first. Their agents
   * are suspended with this status.
   */
  stop(status: ExitStatus): Promise<void> {
    this.#stopping ??= this.#stop(status);
    return this.#stopping;
  }

  async #stop(status: ExitStatus): Promise<void> {
    this.close();
    await Promise.all(this.#boots);
    const projects = [...this.#plans].filter(([project]) => project !== null);
    await Promise.all(projects.map(([, units]) => stopAll(units, status)));
    await stopAll(this.#plans.get(null) ?? [], status);
  }

  /** Names of the units that are up. */
  async #boot({ project, units: plans }: InitPlan): Promise<string[]> {
    const { signal } = this.#closing;
    signal.throwIfAborted();
    if (this.#plans.get(project)?.some(({ isUp }) => isUp)) {
      throw new SyscallError("INVALID", `The units of ${project ?? "the user"} are up already.`);
    }
    const units = plans.map((plan) => new InitUnit(plan, project, this.#parts));
    this.#plans.set(project, units);
    for (const unit of units) {
      const failure = await unit.start(signal).then(
        () => undefined,
        (thrown: unknown) => ({ thrown }),
      );
      if (!failure) continue;
      const { type, name, required } = unit.plan;
      if (required || signal.aborted) {
        await stopAll(units);
        const what = `The ${required ? "required " : ""}${type} ${name}`;
        const message = `${what} did not come up: ${messageOf(failure.thrown)}`;
        throw new SyscallError("UNAVAILABLE", message, { cause: failure.thrown });
      }
      const where = project === null ? "init" : `init ${project}`;
      this.#parts.log("warn", where, `continues without the ${type} ${name}: ${messageOf(failure.thrown)}`);
    }
    return units.filter(({ isUp }) => isUp).map(({ plan }) => plan.name);
  }
}

async function stopAll(units: readonly InitUnit[], status?: ExitStatus): Promise<void> {
  for (const unit of units.toReversed()) await unit.stop(status);
}
