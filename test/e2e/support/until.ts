import { readFileSync } from "node:fs";

/**
 * Waits until the condition holds, a turn of the event loop at a time. `what` says for whom it was in vain: a
 * test's own deadline would not.
 */
export async function until(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
  const giveUp = performance.now() + UNTIL_MS;
  while (!(await condition())) {
    if (performance.now() > giveUp) throw new Error(`never came: ${what}`);
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
}

const UNTIL_MS = 15_000;

/** Whether a process is there, zombies not counted. */
export function isAlive(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat[stat.lastIndexOf(")") + 2] !== "Z";
  } catch {
    return false;
  }
}
