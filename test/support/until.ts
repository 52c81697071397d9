/**
 * Waits until the condition holds: at first it looks at each turn of the event loop, then every few ms, so that what is
 * waited for has the processor. In vain, it says for what: a test's own deadline would not.
 */
export async function until(
  condition: () => boolean | Promise<boolean>,
  what: string | (() => string) = String(condition),
  withinMs = UNTIL_MS,
): Promise<void> {
  const giveUp = performance.now() + withinMs;
  for (let looks = 1; !(await condition()); looks++) {
    if (performance.now() > giveUp)
      throw new Error(`never came: ${typeof what === "string" ? what : what()}`);
    if (looks > LOOKS_AT_ONCE) await Bun.sleep(BETWEEN_LOOKS_MS);
    else await new Promise<void>((resolve) => setImmediate(resolve));
  }
}

const UNTIL_MS = 50_000;
const LOOKS_AT_ONCE = 100;
const BETWEEN_LOOKS_MS = 5;
