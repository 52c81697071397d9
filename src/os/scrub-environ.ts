/** Hides variables in the environment that the system shows for this process. */

import { libc } from "./libc.ts";

/**
 * Hides values in `/proc/<pid>/environ` of this process, which every program of the same user can read. `process.env`
 * still has them: Bun has copied them. Linux only.
 */
export function scrubEnviron(names: Iterable<string>): void {
  const calls = libc();
  if (calls) for (const name of names) calls.hideVariable(name);
}
