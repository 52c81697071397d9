import type { Children } from "../os/children.ts";
import { SyscallError } from "../plugin/index.ts";
import type { Process } from "./process.ts";
import type { ProcessLife } from "./process-life.ts";
import type { ProcessTable } from "./process-table.ts";
import type { PID, Signal } from "./types.ts";
import { SIGINT, SIGKILL, SIGPAUSE, SIGRESUME, SIGTERM } from "./types.ts";
import { killed } from "./verdict.ts";

interface SignalManagerPorts {
  table: ProcessTable;
  life: ProcessLife;
  children: Children;
}

/** How signals reach processes (seeds 8.2). */
export class SignalManager {
  readonly #ports: SignalManagerPorts;

  constructor(ports: SignalManagerPorts) {
    this.#ports = ports;
  }

  /** Sends a signal to a process and all below it; returns how many it reached. */
  signalTree(pid: PID, signal: Signal): number {
    const { table } = this.#ports;
    const tree = table.tree(table.get(pid)).filter((proc) => proc.state === "running");
    for (const proc of tree) this.deliver(proc, signal);
    return tree.length;
  }

  deliver(proc: Process, signal: Signal): void {
    switch (signal) {
      case SIGTERM:
      case SIGINT:
      case SIGKILL:
        // What still runs of a process that is suspended, or was asked to end, is not waited for any more.
        if (signal === SIGKILL || proc.stopped?.reason === "suspended")
          this.#ports.children.hurryOwner(proc.uuid);
        proc.kill(killed(signal, proc.paused));
        return;
      case SIGPAUSE:
        proc.pause();
        break;
      case SIGRESUME:
        proc.resume();
        break;
      default:
        throw new SyscallError(
          "INVALID",
          `Signal ${String(signal)} does not exist. Expected 1 (TERM), 2 (KILL), 3 (INT), 4 (PAUSE) or 5 (RESUME).`,
        );
    }
    if (proc.state === "running") void this.#ports.life.note(proc);
  }
}
