/** The changed files of live processes, for `rnix diff` and `rnix undo`. */

import { notifyUndos } from "../resume/undo-notice.ts";
import type { Io } from "../tiers/io.ts";
import type { PID } from "../types.ts";

/** What live processes change in files, for a user who looks at it or takes it back. */
export class LiveChanges {
  readonly #parts: Io;

  constructor(parts: Io) {
    this.#parts = parts;
  }

  /** Records everything that the process has changed so far. */
  refresh(pid: PID): Promise<void> {
    return this.#parts.changes.refresh(this.#parts.table.get(pid));
  }

  /** Whether the process waits for its user or is paused, and no call or program of it is under way. */
  isQuiet(pid: PID): boolean {
    const proc = this.#parts.table.get(pid);
    return (proc.paused || proc.waitsForMessage) && this.#parts.changes.isQuiet(proc);
  }

  /** Changes of the process were taken back: its model is notified. */
  async undone(pid: PID): Promise<void> {
    const proc = this.#parts.table.get(pid);
    await this.#parts.changes.refresh(proc);
    const { clock, notify, runs } = this.#parts;
    const stored = runs(proc.spec.opts.project.dataDir);
    await notifyUndos(proc, stored, clock.now(), (text) => notify(proc, "rnix", text));
  }
}
