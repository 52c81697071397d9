import { readdirSync } from "node:fs";
import { holdsKernel } from "./kernel-sign.ts";
import { readStat } from "./linux-table.ts";
import type { Process } from "./process-table.ts";
import { type ProcessTag, readTag } from "./process-tag.ts";
import { signal } from "./signal.ts";

/**
 * Kills what carries the mark as it is seen, the newest first, again and again for a few milliseconds: a program that
 * forks and exits within 0.2 ms is gone before a list of processes is complete. Returns those of the last look.
 * Linux only; elsewhere there are no marks.
 */
export function killMarked(mark: ProcessTag | null, onKill?: (pid: number) => void): { pid: number }[] {
  if (mark === null || process.platform !== "linux") return [];
  const end = performance.now() + SLICE_MS;
  for (;;) {
    const seen: { pid: number }[] = [];
    for (const pid of newestFirst()) {
      if (!isMarked(pid, mark)) continue;
      signal(pid, "SIGKILL");
      seen.push({ pid });
      onKill?.(pid);
    }
    if (seen.length === 0 || performance.now() > end) return seen;
  }
}

/** What carries the mark, but for a kernel itself: it carries its own until it has ended. */
export function markedProcesses(mark: ProcessTag): Process[] {
  if (process.platform !== "linux") return [];
  return newestFirst().flatMap((pid) => {
    const found = isMarked(pid, mark) ? readStat(pid) : null;
    return found && !found.zombie ? [found] : [];
  });
}

function isMarked(pid: number, mark: ProcessTag): boolean {
  return readTag(pid) === mark && readStat(pid)?.zombie === false && !holdsKernel(pid);
}

/** How long the thread is held for one turn. */
const SLICE_MS = 3;

function newestFirst(): number[] {
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => pid > 1 && pid !== process.pid)
    .reverse();
}
