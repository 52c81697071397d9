import type { Clock, Timer } from "../../lib/clock.ts";

/**
 * The time that counts for one process: it stands still while the process is paused, and its timers with it
 * (design §2, "Paused and suspended time counts towards no deadline"). Owned by the process; whoever sets a
 * timer cancels it. What must also happen to a paused process, as a kill's grace, takes the kernel's clock.
 */
export class ProcessClock implements Clock {
  readonly #real: Clock;
  /** When the real clock showed this one's zero: later by every pause. */
  #zero: number;
  /** What this one showed when it was stopped. */
  #stoppedAt: number | undefined;
  /** Made with the first timer: most processes wait for nothing. */
  #timers: Set<HeldTimer> | undefined;

  /** `ranMs`: what it has run already, before it was suspended. */
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

  /** Of one that stands already, nothing. */
  stop(): void {
    if (this.#stoppedAt !== undefined) return;
    this.#stoppedAt = this.monotonic();
    for (const held of this.#timers ?? []) held.armed?.cancel();
  }

  /** Goes on from where it was stopped; of one that runs, nothing. */
  run(): void {
    if (this.#stoppedAt === undefined) return;
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
  /** The real clock's timer; one of the past while this clock stands. */
  armed: Timer | undefined;
}
