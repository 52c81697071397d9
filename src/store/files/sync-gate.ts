/** Limits the number of parallel syncs. */

/** Maximum parallel syncs in the process, so that a slow disk does not fill the runtime's thread pool. */
const IN_FLIGHT = 4;

let running = 0;
const waiting: (() => void)[] = [];

/** Runs a sync when a slot is free, in the order of the requests. */
export async function gatedSync(sync: () => Promise<void>): Promise<void> {
  if (running >= IN_FLIGHT) await new Promise<void>((go) => waiting.push(go));
  else running++;
  try {
    await sync();
  } finally {
    // Hand the slot to the next request, so that no newer one can take it first.
    const next = waiting.shift();
    if (next) next();
    else running--;
  }
}
