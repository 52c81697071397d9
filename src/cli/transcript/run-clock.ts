/** The running time that a live view shows. */

/** Running time of a run: it stands still while the run is paused or waits for the user. */
export class RunClock {
  #ranMs = 0;
  /** null: it stands still. */
  #since: number | null;

  constructor(now: number) {
    this.#since = now;
  }

  /** The run says how long it has run. */
  set(ranMs: number, now: number): void {
    this.#ranMs = ranMs;
    this.#since = now;
  }

  move(moves: boolean, now: number): void {
    if (moves === (this.#since !== null)) return;
    this.#ranMs = this.elapsedMs(now);
    this.#since = moves ? now : null;
  }

  elapsedMs(now: number): number {
    return this.#ranMs + (this.#since === null ? 0 : Math.max(0, now - this.#since));
  }
}
