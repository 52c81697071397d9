import type { Clock } from "./clock.ts";

/** Waits for `work`, at most `ms`: true when it was done by then. Its error is thrown on. */
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
