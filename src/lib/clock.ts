/** The interface of a clock, and the real one. */

/** The kernel's only source of time, set at boot. Tests pass a clock that they move by hand. */
export interface Clock {
  /** Unix time in ms. May jump. */
  now(): number;
  /** Ms from an arbitrary start, with fractions. Never goes back. For all durations. */
  monotonic(): number;
  /** Calls `f` once after `ms`. Does not keep the process alive by itself. */
  timer(ms: number, f: () => void): Timer;
}

export interface Timer {
  cancel(): void;
}

/** setTimeout counts in 32 bits, so a longer wait is split. */
const LONGEST_MS = 2 ** 31 - 1;

export const realClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  timer(ms, f) {
    let handle: ReturnType<typeof setTimeout>;
    const arm = (left: number): void => {
      const piece = Math.min(left, LONGEST_MS);
      handle = setTimeout(() => (left > piece ? arm(left - piece) : f()), Math.max(0, piece));
      handle.unref();
    };
    arm(ms);
    return { cancel: () => clearTimeout(handle) };
  },
};
