/** The folders of kernels, and their lock files, by which others see that one lives or has died. */

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { type Clock, every, type Timer } from "../../lib/clock.ts";
import { errnoOf } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import { FileLock } from "../../store/files/file-lock.ts";

const TAKE_MS = 5_000;

/** In the user's data folder: of each kernel its lock, the ledger of its programs, and their link to the binary. */
export function kernelFolders(userDataDir: string) {
  return {
    locks: join(userDataDir, "kernels"),
    ledgers: join(userDataDir, "children"),
    programs: join(userDataDir, "bin"),
    /** What the programs behind mounts print. */
    mountLogs: join(userDataDir, "mounts"),
  };
}

/**
 * Locks one file per kernel of this user for the kernel's life. A run or program belongs to a dead kernel exactly when
 * that lock is free (design §2, "Owner").
 */
export class KernelLocks {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Another kernel's check whether this one is dead holds the lock for a moment, so wait for it. */
  take(kernelId: string): FileLock {
    return FileLock.acquireNow(join(this.#folder, kernelId), TAKE_MS);
  }

  isAlive(kernelId: string): boolean {
    return !FileLock.isFree(join(this.#folder, kernelId));
  }

  /** Kernels whose file exists. Fails with UNAVAILABLE when the folder was removed. */
  all(): string[] {
    try {
      return readdirSync(this.#folder);
    } catch (cause) {
      if (errnoOf(cause) !== "ENOENT") throw cause;
      const message = `${this.#folder} is gone: the data folder was removed while rnix ran. The next command makes another.`;
      throw new SyscallError("UNAVAILABLE", message, { cause });
    }
  }

  /** Kernels that have died, or have left runs to resume, and whose file still exists. */
  dead(): string[] {
    // Only checked, not taken: taking a lock that is held is retried for milliseconds.
    return this.all().filter((kernelId) => !this.isAlive(kernelId));
  }

  /** Removes the file of a dead kernel: a file that does not exist is as free as an unlocked one. */
  forget(kernelId: string): void {
    FileLock.tryAcquire(join(this.#folder, kernelId))?.release({ remove: true });
  }
}

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
