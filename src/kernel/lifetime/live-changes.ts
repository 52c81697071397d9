/** The changed files of live processes, for `rnix diff` and `rnix undo`. */

import type { Process } from "../process/process.ts";
import type { ProcessTable } from "../process/process-table.ts";
import type { PID } from "../types.ts";
import type { ChangedFiles } from "./changed-files.ts";

interface LiveChangesPorts {
  table: Pick<ProcessTable, "get">;
  changes: Pick<ChangedFiles, "refresh" | "isQuiet">;
  notifyUndos(proc: Process): Promise<void>;
}

/** What live processes change in files, for a user who looks at it or takes it back. */
export class LiveChanges {
  readonly #ports: LiveChangesPorts;

  constructor(ports: LiveChangesPorts) {
    this.#ports = ports;
  }

  /** Records everything that the process has changed so far. */
  refresh(pid: PID): Promise<void> {
    return this.#ports.changes.refresh(this.#ports.table.get(pid));
  }

  /** Whether the process waits for its user or is paused, and no call or program of it is under way. */
  isQuiet(pid: PID): boolean {
    const proc = this.#ports.table.get(pid);
    return (proc.paused || proc.waitsForMessage) && this.#ports.changes.isQuiet(proc);
  }

  /** Changes of the process were taken back: its model is notified. */
  async undone(pid: PID): Promise<void> {
    const proc = this.#ports.table.get(pid);
    await this.#ports.changes.refresh(proc);
    await this.#ports.notifyUndos(proc);
  }
}
