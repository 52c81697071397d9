/** The clock of one process, which stops while it is paused. */

import type { Clock, Timer } from "../../lib/clock.ts";

/**
 * The clock of one process: it and its timers stop while the process is paused (design §2, "Paused and suspended time
 * counts towards no deadline"). The caller that sets a timer cancels it. Deadlines that also apply to a paused process,
 * such as a kill's grace, use the kernel's clock.
 */
export class ProcessClock implements Clock {
  readonly #real: Clock;
  /** The real time at this clock's zero; each pause moves it. */
  #zero: number;
  /** The time of this clock when it was stopped. */
  #stoppedAt: number | undefined;
  #isPaused = false;
  /** Holds that are not released. */
  #holds = 0;
  /** Made with the first timer. */
  #timers: Set<HeldTimer> | undefined;

  /** `ranMs`: running time before the run was suspended. */
  constructor(real: Clock, ranMs = 0) {
    this.#real = real;
    this.#zero = real.monotonic() - ranMs;
  }

  /** The date does not stop. */
  now(): number {
    return this.#real.now();
  }

  /** Ms that the process has run. */
  monotonic(): number {
    return this.#stoppedAt ?? this.#real.monotonic() - this.#zero;
  }

  timer(ms: number, f: () => void): Timer {
    const held: HeldTimer = { dueMs: this.monotonic() + ms, f, armed: undefined };
    this.#timers ??= new Set();
    this.#timers.add(held);
    if (this.#stoppedAt === undefined) this.#arm(held);
    return {
      cancel: () => {
        this.#timers?.delete(held);
        held.armed?.cancel();
      },
    };
  }

  /** Timers that have neither fired nor been cancelled. */
  get pending(): number {
    return this.#timers?.size ?? 0;
  }

  /** Stops it for the pause of its process. */
  stop(): void {
    this.#isPaused = true;
    this.#stop();
  }

  /** Ends the pause. It continues from where it was stopped, unless it is held. */
  run(): void {
    this.#isPaused = false;
    this.#runUnlessHeld();
  }

  /** Stops it until the returned function is called, whatever else stops it. */
  hold(): () => void {
    this.#holds++;
    this.#stop();
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      this.#holds--;
      this.#runUnlessHeld();
    };
  }

  #stop(): void {
    if (this.#stoppedAt !== undefined) return;
    this.#stoppedAt = this.monotonic();
    for (const held of this.#timers ?? []) held.armed?.cancel();
  }

  #runUnlessHeld(): void {
    if (this.#stoppedAt === undefined || this.#isPaused || this.#holds > 0) return;
    this.#zero = this.#real.monotonic() - this.#stoppedAt;
    this.#stoppedAt = undefined;
    for (const held of this.#timers ?? []) this.#arm(held);
  }

  #arm(held: HeldTimer): void {
    held.armed = this.#real.timer(held.dueMs - this.monotonic(), () => {
      this.#timers?.delete(held);
      held.f();
    });
  }
}

interface HeldTimer {
  /** On this clock. */
  readonly dueMs: number;
  readonly f: () => void;
  /** The real clock's timer; cancelled while this clock is stopped. */
  armed: Timer | undefined;
}
