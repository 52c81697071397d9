/** One version of a plugin from disk, with the runs that hold it. */

import type { PluginWorker } from "./plugin-worker.ts";
import type { Timers } from "./timers.ts";

/**
 * One version of a plugin from disk, held by the runs that were spawned with it. A retired version (its files changed or
 * are gone) answers until the last run releases it and its last file is closed. An unused version ends after a while and
 * is started again when needed.
 */
export class PluginVersion {
  readonly digest: string;
  readonly worker: PluginWorker;
  readonly #timers: Timers;
  readonly #idleMs: number;
  #held = 0;
  #retired = false;
  #idle: { cancel(): void } | undefined;
  #ending: Promise<void> | undefined;

  constructor(digest: string, worker: PluginWorker, idle: { timers: Timers; ms: number }) {
    this.digest = digest;
    this.worker = worker;
    this.#timers = idle.timers;
    this.#idleMs = idle.ms;
  }

  /** False when it has ended or is ending: it must not be leased any more. */
  get usable(): boolean {
    return this.#ending === undefined && this.worker.ended === undefined;
  }

  /** Holds it until the returned function is called. */
  hold(): () => void {
    this.#held++;
    this.#idle?.cancel();
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      this.#held--;
      this.settle();
    };
  }

  retire(): void {
    this.#retired = true;
    this.settle();
  }

  /** Ends it when it is unused and retired, else starts its idle timer. Called after each release. */
  settle(): void {
    this.#idle?.cancel();
    if (this.#held > 0 || this.worker.openFiles > 0) return;
    if (this.#retired || this.worker.ended) void this.end();
    else this.#idle = this.#timers.timer(this.#idleMs, () => void this.end());
  }

  /** Never throws. */
  end(): Promise<void> {
    this.#idle?.cancel();
    this.#ending ??= this.worker.end();
    return this.#ending;
  }
}
