/** Notices the death of other kernels of this user. */

import { type Clock, every, type Timer } from "../../lib/clock.ts";
import type { KernelLocks } from "./kernel-locks.ts";

/** Together with the sweep, less than a second. */
const LOOK_MS = 500;

interface KernelWatchPorts {
  clock: Pick<Clock, "timer">;
  locks: Pick<KernelLocks, "all" | "isAlive">;
  /** Kernels have died since the last call. */
  onDeath(): void;
}

/**
 * Looks at the locks of all kernels. A kernel that ends in order removes its file; the lock of one that was killed
 * becomes free. Without this, the programs of a killed `--no-daemon` would run until the daemon's next start.
 */
export class KernelWatch {
  readonly #ports: KernelWatchPorts;
  /** What the last look found. A new kernel makes its file and then locks it, so "new" is looked at again. */
  #seen: Map<string, "alive" | "new" | "dead">;
  readonly #timer: Timer;

  /** Kernels that are dead already are left to the recovery at the start. */
  constructor(ports: KernelWatchPorts) {
    this.#ports = ports;
    this.#seen = new Map(ports.locks.all().map((id) => [id, ports.locks.isAlive(id) ? "alive" : "dead"]));
    this.#timer = every(ports.clock, LOOK_MS, () => this.#look());
  }

  close(): void {
    this.#timer.cancel();
  }

  #look(): void {
    const { locks, onDeath } = this.#ports;
    const before = this.#seen;
    const stateOf = (id: string) => {
      if (locks.isAlive(id)) return "alive" as const;
      return before.has(id) ? ("dead" as const) : ("new" as const);
    };
    this.#seen = new Map(locks.all().map((id) => [id, stateOf(id)]));
    const hasDied = [...this.#seen].some(([id, state]) => state === "dead" && before.get(id) !== "dead");
    if (hasDied) onDeath();
  }
}
