/** Stops a daemon that nothing needs. */

import type { Clock, Timer } from "../../lib/clock.ts";

interface IdleStopPorts {
  clock: Clock;
  /** null: never. */
  afterMs: number | null;
  everyMs: number;
  /** Checked regularly. True while a process is active or a client is connected: then the idle time starts again. */
  busy(): boolean;
  stop(): void;
}

/** Stops the daemon when it has been idle for a while (seeds 5.1). */
export class IdleStop {
  readonly #ports: IdleStopPorts;
  /** undefined: the last check found work. */
  #idleSince: number | undefined;
  #timer: Timer | undefined;

  constructor(ports: IdleStopPorts) {
    this.#ports = ports;
    this.#idleSince = ports.clock.monotonic();
    this.#arm();
  }

  /** Restarts the idle time. Most commands connect and disconnect between two checks. */
  needed(): void {
    this.#idleSince = this.#ports.clock.monotonic();
  }

  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #arm(): void {
    const { clock, everyMs, afterMs } = this.#ports;
    if (afterMs !== null) this.#timer = clock.timer(everyMs, () => this.#look(afterMs));
  }

  #look(afterMs: number): void {
    const { clock, busy, stop } = this.#ports;
    const now = clock.monotonic();
    // A check may come late: only from the first one without work on is the daemon known to be idle.
    this.#idleSince = busy() ? undefined : (this.#idleSince ?? now);
    if (this.#idleSince !== undefined && now - this.#idleSince >= afterMs) stop();
    else this.#arm();
  }
}
