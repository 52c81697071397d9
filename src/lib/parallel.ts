/** Runs work on many items, some at a time. */

/** Runs `work` on all items, at most `most` of them at a time. Rejects with the first failure. */
export async function eachParallel<T>(
  items: readonly T[],
  most: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const left = items.values();
  const worker = async (): Promise<void> => {
    for (const item of left) await work(item);
  };
  await Promise.all(Array.from({ length: Math.min(most, items.length) }, worker));
}
