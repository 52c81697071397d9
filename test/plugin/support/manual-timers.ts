import type { Timers } from "../../../src/plugin/host/process-options.ts";

/** Timers that fire when the test says so: deadlines are passed without waiting for them. */
export class ManualTimers implements Timers {
  readonly #waiting = new Set<{ ms: number; f: () => void }>();

  timer(ms: number, f: () => void): { cancel(): void } {
    const one = { ms, f };
    this.#waiting.add(one);
    return { cancel: () => this.#waiting.delete(one) };
  }

  /** Fires every timer that was set for exactly `ms`, and returns how many. */
  fire(ms: number): number {
    const due = [...this.#waiting].filter((one) => one.ms === ms);
    for (const one of due) {
      this.#waiting.delete(one);
      one.f();
    }
    return due.length;
  }

  get waiting(): number[] {
    return [...this.#waiting].map(({ ms }) => ms);
  }
}
