/** Finds and kills processes by their mark. */

import { readdirSync } from "node:fs";
import { holdsKernel } from "./kernel-sign.ts";
import { readStat } from "./linux-table.ts";
import type { Process } from "./process-table.ts";
import { type ProcessTag, readTag } from "./process-tag.ts";
import { signal } from "./signal.ts";

/**
 * Kills the processes with this mark as soon as each is found, newest first, repeatedly for a few milliseconds. A
 * program that forks and exits within 0.2 ms escapes a complete list. Returns the processes of the last scan. Linux only.
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

/** Returns the processes with this mark, without the kernel, which carries its own mark. */
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

/** Maximum time that one turn blocks the thread. */
const SLICE_MS = 3;

function newestFirst(): number[] {
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => pid > 1 && pid !== process.pid)
    .reverse();
}
