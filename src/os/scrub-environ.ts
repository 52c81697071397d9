import { libc } from "./libc.ts";

/**
 * Takes values out of the environment that the system shows of this process (`/proc/<pid>/environ`, which every
 * program of the same user can read). `process.env` keeps them: Bun has copied them. Linux only; elsewhere nothing
 * of it is shown, or nothing can be done.
 */
export function scrubEnviron(names: Iterable<string>): void {
  const calls = libc();
  if (calls) for (const name of names) calls.hideVariable(name);
}
