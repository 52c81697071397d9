/** The kernel's clock has this shape; only its timers are used. */
export interface Timers {
  timer(ms: number, f: () => void): { cancel(): void };
}

export const realTimers: Timers = {
  timer(ms, f) {
    const handle = setTimeout(f, ms);
    return { cancel: () => clearTimeout(handle) };
  },
};
