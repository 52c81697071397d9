import { join } from "node:path";
import type { Figure } from "../figure.ts";
import { timed } from "../measure.ts";

const MAIN = join(import.meta.dir, "../kernel/main.ts");
/** Tens of thousands of records are written, and removed again. */
const DEADLINE_MS = 600_000;

/**
 * Figures of the kernel alone, in this thread's runtime and without a daemon. Each part is a program of its own:
 * what one leaves behind is not in the memory, nor in the collector's way, of the next.
 */
export async function kernelFigures(parts: readonly string[], rounds: number): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const part of parts) {
    const argv = [process.execPath, MAIN, part, String(rounds)];
    const command = { argv, env: { PATH: process.env.PATH ?? "" }, cwd: import.meta.dir };
    const { stdout } = await timed(command, DEADLINE_MS);
    const found: Figure[] = JSON.parse(stdout);
    figures.push(...found);
  }
  return figures;
}
