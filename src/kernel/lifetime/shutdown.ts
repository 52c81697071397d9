/** Ends all processes when the kernel shuts down. */

import { SIGKILL } from "../../lib/signals.ts";
import type { InitManager } from "../init-manager.ts";
import type { Process } from "../process/process.ts";
import { killed, suspendedFor } from "../process/verdict.ts";
import { resumesByItself } from "../resume/auto-resume-rule.ts";
import type { Agents } from "../tiers/agents.ts";
import type { ExitStatus, SuspendCause } from "../types.ts";

export type LifecycleParts = Agents & { init: InitManager };

export interface ShutdownOptions {
  now?: boolean;
  cause?: SuspendCause;
  /** 0: running calls are cancelled at once. */
  drainMs?: number;
}

/** Ends all processes, users of a process before it. */
export class Shutdown {
  readonly #parts: LifecycleParts;
  #handsOver = false;

  constructor(parts: LifecycleParts) {
    this.#parts = parts;
  }

  /** See LifecycleManager.shutdown. */
  async run({ now, cause, drainMs }: Required<ShutdownOptions>): Promise<void> {
    const { debug, drain, table } = this.#parts;
    const args = { now, cause, processes: table.size, calls: drain.activeCalls };
    const end = async (): Promise<void> => {
      this.#close();
      if (!now && drainMs > 0) await drain.settle(drainMs);
      await this.#endAll(now, cause);
    };
    await debug.callFor(undefined, undefined, "Shutdown", args, end);
  }

  /** Whether a run that the shutdown suspended resumes by itself when rnix starts again. */
  get handsOver(): boolean {
    return this.#handsOver;
  }

  /** No process is created and no unit started any more. */
  #close(): void {
    this.#parts.processes.close();
    this.#parts.init.close();
  }

  async #endAll(now: boolean, cause: SuspendCause): Promise<void> {
    const { table, runner, children, mounts, init } = this.#parts;
    // Units of init.yaml end after the processes that may use them.
    const all = table.all();
    const live = all.filter((proc) => now || !init.owns(this.#rootOf(proc)));
    for (const proc of live) {
      // Its supervisor ends it, in its own order.
      if (!now && this.#isSupervised(proc)) continue;
      proc.stop(now ? killed(SIGKILL, proc.paused) : suspendedBy(proc, cause));
      // A process that is suspending keeps its status, but its programs get no more grace.
      if (now) children.hurryOwner(proc.uuid);
    }
    await Promise.all(live.map((proc) => proc.done.then(() => runner.reap(proc))));
    await init.stop(suspendedFor("rnix was stopped", { cause }));
    this.#handsOver ||= all.some((proc) => proc.exit !== undefined && resumesByItself(proc.info()));
    // Shared mounts outlive the processes that use them.
    await mounts.unmountAll();
    runner.pendingRecords.retry();
  }

  #rootOf(proc: Process): Process {
    const parent = this.#parts.table.find(proc.family.ppid);
    return parent ? this.#rootOf(parent) : proc;
  }

  #isSupervised({ family }: Process): boolean {
    const parent = this.#parts.table.find(family.ppid);
    return parent !== undefined && (parent.spec.kind === "supervisor" || this.#isSupervised(parent));
  }
}

/** A process that the user had paused must not resume by itself later. */
function suspendedBy({ paused, waitsForMessage }: Process, cause: SuspendCause): ExitStatus {
  const wake = waitsForMessage ? ({ on: "message" } as const) : undefined;
  return paused
    ? suspendedFor("rnix was stopped while it was paused", { cause: "asked", wake })
    : suspendedFor("rnix was stopped", { cause, wake });
}
