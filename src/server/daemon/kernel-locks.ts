import { readdirSync } from "node:fs";
import { join } from "node:path";
import { FileLock } from "../../store/files/file-lock.ts";

const TAKE_MS = 5_000;

/**
 * One file per kernel that runs for this user, locked for its life: a run or a program is a dead kernel's
 * exactly when that lock is free (design §2, "Owner").
 */
export class KernelLocks {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** A check whether this kernel is dead holds the lock for a moment, on a busy machine longer: wait for that. */
  take(kernelId: string): FileLock {
    return FileLock.acquireNow(join(this.#folder, kernelId), TAKE_MS);
  }

  isAlive(kernelId: string): boolean {
    return !FileLock.isFree(join(this.#folder, kernelId));
  }

  /** Kernels that have died, or have left runs to resume, and whose file still exists. */
  dead(): string[] {
    // Looked at, not taken: to take a lock that is held, our own too, is tried for milliseconds.
    return readdirSync(this.#folder).filter((kernelId) => !this.isAlive(kernelId));
  }

  /** Removes the file of a dead kernel: a file that does not exist is as free as an unlocked one. */
  forget(kernelId: string): void {
    FileLock.tryAcquire(join(this.#folder, kernelId))?.release({ remove: true });
  }
}
