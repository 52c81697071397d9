/** The folders of kernels, and their lock files, by which others see that one lives. */

import { readdirSync } from "node:fs";
import { join } from "node:path";
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

/** One file per kernel, locked for the kernel's life: a kernel is dead exactly when its lock is free. */
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

  /** Kernels whose file exists. */
  all(): string[] {
    return readdirSync(this.#folder);
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
