import type { Children } from "../os/children.ts";
import type { MountManager } from "./mount-manager.ts";
import type { Process } from "./process.ts";
import type { ProcessLife } from "./process-life.ts";
import type { ProcessManager } from "./process-manager.ts";
import type { ProcessTable } from "./process-table.ts";
import type { ExitStatus, PID } from "./types.ts";
import { SIGKILL } from "./types.ts";
import { killed, SUSPENDED } from "./verdict.ts";

interface LifecycleManagerPorts {
  table: ProcessTable;
  processes: ProcessManager;
  life: ProcessLife;
  children: Children;
  mounts: MountManager;
}

/** How runs are laid down, and the end of the kernel (design §2). */
export class LifecycleManager {
  readonly #ports: LifecycleManagerPorts;

  constructor(ports: LifecycleManagerPorts) {
    this.#ports = ports;
  }

  /** Ends a run so that it can be gone on with later: exit 75. Resolves when its record is on disk. */
  async suspend(pid: PID): Promise<ExitStatus> {
    const proc = this.#ports.table.get(pid);
    proc.stop(SUSPENDED);
    return await proc.done;
  }

  /**
   * Ends all processes, suspended so that they can be gone on with, or killed with `now`; takes no new
   * ones. Resolves when the last is reaped. The owner of the ports closes them afterwards.
   */
  async shutdown({ now = false }: { now?: boolean } = {}): Promise<void> {
    const { table, processes, life, children, mounts } = this.#ports;
    processes.close();
    const live = table.all();
    for (const proc of live) {
      // Its supervisor does that, in its order.
      if (!now && this.#isSupervised(proc)) continue;
      proc.stop(now ? killed(SIGKILL, proc.paused) : SUSPENDED);
      // One that is suspended already stays so: only its programs get no grace any more.
      if (now) children.hurryOwner(proc.uuid);
    }
    await Promise.all(live.map((proc) => proc.done.then(() => life.reap(proc))));
    // What many see, such as a service, outlives them.
    await mounts.unmountAll();
    life.retryRecords();
  }

  #isSupervised({ ppid }: Process): boolean {
    const parent = this.#ports.table.find(ppid);
    return parent !== undefined && (parent.spec.kind === "supervisor" || this.#isSupervised(parent));
  }
}
