/** Process records that the disk refused, until it takes them. */

import type { ProcInfo } from "../../store/runs/schema.ts";

/** At most this many records wait; beyond that the oldest is dropped. */
const MAX_PENDING = 1000;

/**
 * The last records of ended runs that the disk rejected: on disk these runs still look alive. Writes are retried when
 * another run ends and at shutdown.
 */
export class PendingRecords {
  readonly #waiting = new Map<string, { info: ProcInfo; write: () => void }>();

  /** The last record of a run while it waits. */
  of(uuid: string): ProcInfo | undefined {
    return this.#waiting.get(uuid)?.info;
  }

  /** Writes the last record of a run, or queues it and throws the error. */
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

  /** The run was resumed: its former last record must not be written. */
  forget(uuid: string): void {
    this.#waiting.delete(uuid);
  }

  /** Retries the waiting records, oldest first, and stops at the first failure. */
  retry(): void {
    for (const [uuid, { write }] of this.#waiting) {
      try {
        write();
      } catch {
        return; // Logged at its first failure; it stays queued.
      }
      this.#waiting.delete(uuid);
    }
  }
}
