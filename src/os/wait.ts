/** Timers: alarms of any length, pauses, and waits with a deadline. */

/** setTimeout counts in 32 bits. */
const LONGEST_MS = 2 ** 31 - 1;

export interface Alarm {
  cancel(): void;
}

/** Calls `ring` once after this time, however long. */
export function alarm(ms: number, ring: () => void): Alarm {
  let timer: ReturnType<typeof setTimeout>;
  const set = (left: number): void => {
    const piece = Math.min(left, LONGEST_MS);
    timer = setTimeout(() => (left > piece ? set(left - piece) : ring()), piece);
  };
  set(ms);
  return { cancel: () => clearTimeout(timer) };
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Returns true when the promise settles within this time. */
export async function settles(promise: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), ms);
  });
  const done = promise.then(
    () => true,
    () => true,
  );
  try {
    return await Promise.race([done, late]);
  } finally {
    clearTimeout(timer);
  }
}
