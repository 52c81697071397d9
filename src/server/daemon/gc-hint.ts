/** Asks the runtime to collect garbage, to keep the daemon small. */

import type { Clock, Timer } from "../../lib/clock.ts";

interface GcHintPorts {
  clock: Clock;
  /** While it is true, the compiled code is in use. */
  works(): boolean;
  /** Beside the thread. */
  collect?(): void;
  /** Drops the compiled code as well, and returns the memory to the system: 30 ms of the thread. */
  shrink?(): void;
  /** The processor time of this process, in ms. */
  cpuMs?(): number;
}

/** Number of connections between two collections. */
const EVERY = 10;
const LOOK_MS = 60_000;
/** In the time of a look. Less compiles little; `shrink` itself takes a part of it. */
const WORK_MS = 100;

/**
 * Keeps the daemon's memory small. The runtime by itself collects only after its heap has grown by half, and it hardly
 * returns memory to the system. A requested collection runs beside the thread and costs two milliseconds of another
 * core for each connection. A daemon that waits, for the night's job or the next command, needs no compiled code,
 * which is half of its memory.
 */
export class GcHint {
  readonly #ports: Required<GcHintPorts>;
  #served = 0;
  #cpuMs = 0;
  #hasWorked = true;
  #timer: Timer;

  constructor(ports: GcHintPorts) {
    this.#ports = { collect: () => void Bun.gc(false), shrink: Bun.shrink, cpuMs: ownCpuMs, ...ports };
    this.#timer = this.#arm();
  }

  /** Called when a connection has ended, which often means that a run has ended. */
  served(): void {
    this.#served += 1;
    if (this.#served % EVERY === 0) this.#ports.collect();
  }

  close(): void {
    this.#timer.cancel();
  }

  #arm(): Timer {
    return this.#ports.clock.timer(LOOK_MS, () => {
      this.#look();
      this.#timer = this.#arm();
    });
  }

  #look(): void {
    const { works, shrink, cpuMs } = this.#ports;
    const before = this.#cpuMs;
    this.#cpuMs = cpuMs();
    const hasWorked = works() || this.#cpuMs - before >= WORK_MS;
    if (this.#hasWorked && !hasWorked) shrink();
    this.#hasWorked = hasWorked;
  }
}

function ownCpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}
