import type { Clock, Timer } from "../kernel/clock.ts";

interface IdleStopPorts {
  clock: Clock;
  /** null: never. */
  afterMs: number | null;
  everyMs: number;
  /** A process is active or a client is connected: the time starts anew. */
  busy(): boolean;
  stop(): void;
}

/** Stops the daemon when nobody has needed it for a while (seeds 5.1). */
export class IdleStop {
  readonly #ports: IdleStopPorts;
  #idleSince: number;
  #timer: Timer | undefined;

  constructor(ports: IdleStopPorts) {
    this.#ports = ports;
    this.#idleSince = ports.clock.monotonic();
    this.#arm();
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
    if (busy()) this.#idleSince = now;
    if (now - this.#idleSince >= afterMs) stop();
    else this.#arm();
  }
}
