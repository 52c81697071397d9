/** The timers of the plugin host. */

import type { Clock } from "../../lib/clock.ts";

export type Timers = Pick<Clock, "timer">;

/** Unlike those of `realClock`, they keep the program running: a call waits for them. */
export const realTimers: Timers = {
  timer(ms, f) {
    const handle = setTimeout(f, ms);
    return { cancel: () => clearTimeout(handle) };
  },
};
