/** Events of runs within the kernel. */

import type { Process } from "../process/process.ts";
import type { SavedRun } from "../resume/saved-run.ts";
import type { ExitStatus } from "../types.ts";

interface LifecycleListener {
  /** A resumed run has a process again, which has not begun a step yet. */
  onResumed?(proc: Process, saved: SavedRun): Promise<void> | void;
  /** A suspended run was ended; it has no process. */
  onEnded?(uuid: string, exit: ExitStatus): void;
}

/** Events of runs within the kernel. The part that emits one does not know which parts listen. */
export class LifecycleEvents {
  readonly #listeners: LifecycleListener[] = [];

  /** Listeners are called in the order of their subscription, for as long as the kernel lives. */
  subscribe(listener: LifecycleListener): void {
    this.#listeners.push(listener);
  }

  /** Waits for each listener before it calls the next. */
  async resumed(proc: Process, saved: SavedRun): Promise<void> {
    for (const listener of this.#listeners) await listener.onResumed?.(proc, saved);
  }

  ended(uuid: string, exit: ExitStatus): void {
    for (const listener of this.#listeners) listener.onEnded?.(uuid, exit);
  }
}
