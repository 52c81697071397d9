import { readdirSync } from "node:fs";
import { join } from "node:path";
import { SyscallError } from "../plugin/index.ts";
import { FileLock } from "../store/lock.ts";

/** In the user's data folder: the locks of the kernels, and the ledgers of their programs. */
export function kernelFolders(userDataDir: string): { locks: string; ledgers: string } {
  return { locks: join(userDataDir, "kernels"), ledgers: join(userDataDir, "children") };
}

/**
 * One file per kernel that runs for this user, locked for its life: a run or a program is a dead kernel's
 * exactly when that lock is free (design §2, "Owner").
 */
export class KernelLocks {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  take(kernelId: string): FileLock {
    const lock = FileLock.tryAcquire(join(this.#folder, kernelId));
    if (lock) return lock;
    throw new SyscallError("INTERNAL", `The lock of the new kernel ${kernelId} is held by somebody.`);
  }

  isAlive(kernelId: string): boolean {
    return !FileLock.isFree(join(this.#folder, kernelId));
  }

  /** Removes the files of dead kernels: a file that is not there is as free as one that nobody holds. */
  sweep(): void {
    for (const kernelId of readdirSync(this.#folder)) {
      // Looked at first: to take a lock that is held, our own too, is tried for milliseconds.
      if (this.isAlive(kernelId)) continue;
      FileLock.tryAcquire(join(this.#folder, kernelId))?.release({ remove: true });
    }
  }
}
