import { onceAborted } from "./abort.ts";
import type { Process } from "./process.ts";
import type { ProcessManager } from "./process-manager.ts";
import type { ProcessTable } from "./process-table.ts";
import { type ChildPlan, type ChildWish, type PID, type ProcInfo, SIGTERM } from "./types.ts";
import { killed } from "./verdict.ts";

interface ChildAgentPorts {
  table: ProcessTable;
  processes: ProcessManager;
  /** Settles what the child is made of that the agent with this UUID wants. */
  planChild(parentUuid: string, wish: ChildWish): Promise<ChildPlan>;
  /** Tells those who watch the process. */
  tell(proc: Process, text: string): void;
}

/** The children that agents spawn and wait for. */
export class ChildAgents {
  readonly #ports: ChildAgentPorts;
  /** Children that are waited for, and by whom. */
  readonly #waiting = new Map<PID, Process>();

  constructor(ports: ChildAgentPorts) {
    this.#ports = ports;
  }

  /** Children that are waited for. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /**
   * Spawns a child and waits until it is reaped, however it ends. Rejects when none can be spawned, EXHAUSTED
   * where the parent's envelope allows none, and with the signal's reason when the parent is told to stop.
   */
  async run(parent: Process, wish: ChildWish, signal: AbortSignal): Promise<ProcInfo> {
    const { table, processes, planChild, tell } = this.#ports;
    // Before anything is loaded for it: a model may ask again and again.
    parent.spec.envelope.requireRoom(parent.elapsedMs);
    const { agent, opts, notices } = await planChild(parent.uuid, wish);
    const pid = await processes.spawn(wish.intent, agent, { ...opts, parentPid: parent.pid });
    const child = table.get(pid);
    for (const notice of notices) tell(parent, `Agent: ${notice}`);
    this.#waiting.set(pid, parent);
    try {
      await this.#end(parent, child, signal);
      return child.info();
    } finally {
      this.#waiting.delete(pid);
    }
  }

  /** A child's step is worth a line to those who watch its parent; its words and calls are in its own log. */
  onStep(child: Process): void {
    const parent = this.#waiting.get(child.pid);
    if (!parent || parent.watchers.size === 0) return;
    const { maxSteps, agent } = child.spec;
    const step = maxSteps === null ? `${child.step}` : `${child.step}/${maxSteps}`;
    this.#ports.tell(
      parent,
      `Agent: process ${child.pid} (${agent.name}), step ${step}, ${child.tokensUsed} tokens`,
    );
  }

  async #end(parent: Process, child: Process, signal: AbortSignal): Promise<void> {
    const aborted = Promise.withResolvers<never>();
    const ignore = onceAborted(signal, () => aborted.reject(signal.reason));
    try {
      await Promise.race([this.#ports.processes.wait(child.pid, parent), aborted.promise]);
    } catch (thrown) {
      // A parent that ends takes its children with it, in its own order.
      if (!parent.stopped) child.stop(killed(SIGTERM, child.paused));
      throw thrown;
    } finally {
      ignore();
    }
  }
}
