/** Repeats what failed because another caller is resuming the run at that moment. */

import type { Services } from "../../services.ts";

/** How often, and at which interval, to look for the end of the other caller's work. */
const TRIES = 100;
const LOOK_MS = 20;

/** `isTaken`: whether the failure will pass. Fails with the last failure. */
export async function whileTaken<T>(
  { clock }: Pick<Services, "clock">,
  work: () => Promise<T>,
  isTaken: (thrown: unknown) => Promise<boolean>,
): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (thrown) {
      if (tries === TRIES || !(await isTaken(thrown))) throw thrown;
      await new Promise<void>((resolve) => void clock.timer(LOOK_MS, resolve));
    }
  }
}
