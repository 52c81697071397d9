/** Waits for work, at most a given time. */

import type { Clock } from "./clock.ts";

/** Waits for `work`, at most `ms`. Returns whether it finished in time. Rethrows its error. */
export function withTimeout(clock: Clock, ms: number, work: Promise<unknown>): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const timer = clock.timer(ms, () => resolve(false));
    work.then(
      () => {
        timer.cancel();
        resolve(true);
      },
      (error: unknown) => {
        timer.cancel();
        reject(error);
      },
    );
  });
}
