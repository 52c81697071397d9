/** Waits for tools of mounts that are being made. */

import type { Process } from "../process/process.ts";

/** Waits for the mounts that are being made and would bring tools of these names. A mount ends with its process. */
export async function awaitTools({ starting }: Process, names: readonly string[]): Promise<void> {
  if (starting.size === 0) return;
  const wanted = [...starting].filter(([prefix]) => names.some((name) => name.startsWith(prefix)));
  await Promise.all(wanted.map(([, ended]) => ended));
}
