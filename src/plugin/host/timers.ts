/** The kernel's clock has this shape; only its timers are used. */
export interface Timers {
  /** `unref`: it keeps no program running. */
  timer(ms: number, f: () => void): { cancel(): void; unref?(): void };
}

export const realTimers: Timers = {
  timer(ms, f) {
    const handle = setTimeout(f, ms);
    return { cancel: () => clearTimeout(handle), unref: () => void handle.unref() };
  },
};
