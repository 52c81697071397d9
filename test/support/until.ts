/**
 * Waits until the condition holds, a turn of the event loop at a time. In vain, it says for what: a test's own
 * deadline would not.
 */
export async function until(
  condition: () => boolean | Promise<boolean>,
  what = String(condition),
  withinMs = UNTIL_MS,
): Promise<void> {
  const giveUp = performance.now() + withinMs;
  while (!(await condition())) {
    if (performance.now() > giveUp) throw new Error(`never came: ${what}`);
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
}

const UNTIL_MS = 50_000;
