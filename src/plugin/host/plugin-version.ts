import type { PluginWorker } from "./plugin-worker.ts";
import type { Timers } from "./timers.ts";

/**
 * One version of a plugin from disk, held by the runs that were spawned with it. A retired one (its files
 * have changed or are gone) answers until the last of them has let go and its last file is closed; one
 * that nobody uses ends after a while and is started anew when it is wanted.
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

  /** False once it is ended or about to be: it must not be handed out any more. */
  get usable(): boolean {
    return this.#ending === undefined && this.worker.ended === undefined;
  }

  /** Keeps it until the returned function is called. */
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

  /** Ends it when nobody needs it. Called whenever there may be one user less. */
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
