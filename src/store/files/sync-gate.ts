/** One slow disk must not fill the runtime's thread pool: so many syncs at once in the whole process. */
const IN_FLIGHT = 4;

let running = 0;
const waiting: (() => void)[] = [];

/** Runs a sync when there is room for it, in the order of the requests. */
export async function gatedSync(sync: () => Promise<void>): Promise<void> {
  if (running >= IN_FLIGHT) await new Promise<void>((go) => waiting.push(go));
  else running++;
  try {
    await sync();
  } finally {
    // The place is handed on, not freed: nobody can slip in between.
    const next = waiting.shift();
    if (next) next();
    else running--;
  }
}
