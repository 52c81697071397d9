/** The timers of the plugin host. */

/** The timers of the kernel's clock. */
export interface Timers {
  /** `unref`: the timer does not keep the program running. */
  timer(ms: number, f: () => void): { cancel(): void; unref?(): void };
}

export const realTimers: Timers = {
  timer(ms, f) {
    const handle = setTimeout(f, ms);
    return { cancel: () => clearTimeout(handle), unref: () => void handle.unref() };
  },
};
