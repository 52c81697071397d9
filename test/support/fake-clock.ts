import type { Clock, Timer } from "../../src/lib/clock.ts";

/**
 * A clock that a test moves by hand. Timers fire in the order of their times, and between two of them all
 * that was waiting on the first gets to run.
 */
export class FakeClock implements Clock {
  #now: number;
  #elapsed = 0;
  #timers: { at: number; f: () => void }[] = [];

  constructor(now = Date.UTC(2026, 0, 1)) {
    this.#now = now;
  }

  now(): number {
    return this.#now;
  }

  monotonic(): number {
    return this.#elapsed;
  }

  timer(ms: number, f: () => void): Timer {
    const timer = { at: this.#elapsed + Math.max(0, ms), f };
    this.#timers.push(timer);
    return {
      cancel: () => {
        this.#timers = this.#timers.filter((one) => one !== timer);
      },
    };
  }

  /** Timers that have neither fired nor been cancelled: 0 at a test's end, or something leaks. */
  get pending(): number {
    return this.#timers.length;
  }

  /** Ms until each pending timer fires, the nearest first. */
  get waits(): number[] {
    return this.#timers.map((one) => one.at - this.#elapsed).sort((a, b) => a - b);
  }

  /** Changes the time of day, as a user does. No time passes. */
  set(now: number): void {
    this.#now = now;
  }

  async advance(ms: number): Promise<void> {
    const until = this.#elapsed + ms;
    await settled();
    for (;;) {
      const next = this.#timers.filter((one) => one.at <= until).sort((a, b) => a.at - b.at)[0];
      if (next === undefined) break;
      this.#timers = this.#timers.filter((one) => one !== next);
      this.#move(next.at);
      next.f();
      await settled();
    }
    this.#move(until);
  }

  #move(to: number): void {
    this.#now += to - this.#elapsed;
    this.#elapsed = to;
  }
}

/** Lets everything run that waits for nothing but the promises before it. */
export function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Lets time pass until something has come to its end. */
export async function passing<T>(clock: FakeClock, work: Promise<T>): Promise<T> {
  let over = false;
  const end = (): void => {
    over = true;
  };
  work.then(end, end);
  while (!over) await clock.advance(1_000);
  return work;
}
