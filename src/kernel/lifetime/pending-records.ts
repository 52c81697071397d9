import type { ProcInfo } from "../../store/runs/schema.ts";

/** So many ended runs may wait for their disk; beyond that the oldest is given up. */
const MAX_PENDING = 1000;

/**
 * The last records of runs whose disk refused them. Their verdicts have been told; until the disk takes
 * them it still says that they run. They are tried again when another run ends, and at the kernel's end.
 */
export class PendingRecords {
  readonly #waiting = new Map<string, { info: ProcInfo; write: () => void }>();

  /** What a run has ended with, as long as its disk has not taken it. */
  of(uuid: string): ProcInfo | undefined {
    return this.#waiting.get(uuid)?.info;
  }

  /** Writes the last record of a run, or keeps it for later and throws what refused it. */
  write(info: ProcInfo, write: () => void): void {
    const { uuid } = info;
    this.retry();
    try {
      write();
    } catch (thrown) {
      const oldest = this.#waiting.keys().next();
      if (this.#waiting.size >= MAX_PENDING && !oldest.done) this.#waiting.delete(oldest.value);
      this.#waiting.set(uuid, { info, write });
      throw thrown;
    }
  }

  /** The run is gone on with: what it had ended with is not written any more. */
  forget(uuid: string): void {
    this.#waiting.delete(uuid);
  }

  /** Tries those that wait, oldest first, and leaves off at the first that is refused again. */
  retry(): void {
    for (const [uuid, { write }] of this.#waiting) {
      try {
        write();
      } catch {
        return; // Told when it was refused the first time; it waits on.
      }
      this.#waiting.delete(uuid);
    }
  }
}
