import { SyscallError } from "../plugin/index.ts";
import { type Debugger, namedError } from "./debugger.ts";
import type { Process } from "./process.ts";
import type { ProcessBuilder } from "./process-builder.ts";
import type { ProcessLife, Task } from "./process-life.ts";
import type { ProcessTable } from "./process-table.ts";
import type { SignalManager } from "./signal-manager.ts";
import type {
  AgentInfo,
  ExitStatus,
  KernelCallbacks,
  PID,
  ProcessKind,
  ProcInfo,
  Signal,
  SpawnOpts,
} from "./types.ts";
import { SIGINT, SIGKILL, SIGTERM } from "./types.ts";

/** Characters of an intent in the trace; the record has the whole. */
const INTENT_SHOWN = 200;

interface ProcessManagerPorts {
  table: ProcessTable;
  builder: ProcessBuilder;
  life: ProcessLife;
  /** What an agent does: it reasons. */
  reason: Task;
  debug: Debugger;
  signals: SignalManager;
  callbacks?: KernelCallbacks;
}

/** Spawn, Kill, Wait, ListProcs, GetPID (seeds 1.2). */
export class ProcessManager {
  readonly #ports: ProcessManagerPorts;
  #closing = false;

  constructor(ports: ProcessManagerPorts) {
    this.#ports = ports;
  }

  /**
   * Creates a process and starts its reasoning. The device lease becomes the kernel's: it is released at
   * the reap, or here when the spawn fails.
   */
  spawn(intent: string, agent: AgentInfo | null, opts: SpawnOpts): Promise<PID> {
    return this.spawnTask("agent", this.#ports.reason, intent, agent, opts);
  }

  /** The same for a process that has another task than to reason: one of the system's own. */
  async spawnTask(
    kind: ProcessKind,
    task: Task,
    intent: string,
    agent: AgentInfo | null,
    opts: SpawnOpts,
  ): Promise<PID> {
    const { builder, life } = this.#ports;
    try {
      if (this.#closing) {
        opts.devices.release();
        throw new SyscallError(
          "UNAVAILABLE",
          "The kernel is shutting down and takes no new processes. Try again in a moment.",
        );
      }
      const proc = await builder.build(kind, intent, agent, opts, (built) => this.#start(built));
      life.begin(proc, task);
      return proc.pid;
    } catch (thrown) {
      throw namedError(thrown, "Spawn", 0);
    }
  }

  /**
   * Sends a signal to this process alone: what it has spawned goes on, as PID 0's. One that has ended already
   * takes none, and that is no error.
   */
  kill(pid: PID, signal: Signal): void {
    const proc = this.#ports.table.get(pid);
    if (ENDING.has(signal)) this.#orphan(proc);
    this.#ports.signals.deliver(proc, signal);
  }

  /** Waits for the end, then for the reap, which whoever comes first does. */
  async wait(pid: PID): Promise<ExitStatus> {
    const proc = this.#ports.table.get(pid);
    const exit = await proc.done;
    await this.#ports.life.reap(proc);
    return exit;
  }

  /** Snapshots: nothing in them changes when the process does. */
  listProcs(): ProcInfo[] {
    return this.#ports.table.all().map((proc) => proc.info());
  }

  getPid(proc: Process): PID {
    return proc.pid;
  }

  /** Takes no new processes from now on. */
  close(): void {
    this.#closing = true;
  }

  async #start(proc: Process): Promise<void> {
    const { intent, agent } = proc.spec;
    const { callbacks, debug } = this.#ports;
    const args = {
      intent: intent.slice(0, INTENT_SHOWN),
      agent: agent.name,
      provider: proc.provider.name,
      model: proc.provider.model,
    };
    await debug.call(
      proc,
      "Spawn",
      args,
      () => {
        proc.start();
        proc.record.info(proc.info());
      },
      () => proc.pid,
    );
    callbacks?.onSpawn(proc.pid, intent, proc.provider.name, proc.provider.model);
  }

  /** One that is still being built has nobody else to end it, and stays. */
  #orphan(proc: Process): void {
    for (const pid of [...proc.children]) {
      const child = this.#ports.table.find(pid);
      if (child?.state !== "running") continue;
      proc.children.splice(proc.children.indexOf(child.pid), 1);
      child.ppid = 0;
      void this.#ports.life.note(child);
    }
  }
}

const ENDING: ReadonlySet<Signal> = new Set([SIGTERM, SIGKILL, SIGINT]);
