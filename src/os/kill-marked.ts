/** Finds and kills processes by their mark. */

import { readdirSync } from "node:fs";
import { holdsKernel, type Process, readStat } from "./process-table.ts";
import { type ProcessTag, readTag } from "./process-tag.ts";
import { killRepeatedly, signal } from "./signal.ts";

/** Kills the processes with this mark, newest first: see `killRepeatedly`. Linux only. */
export function killMarked(mark: ProcessTag | null, onKill?: (pid: number) => void): { pid: number }[] {
  if (mark === null || process.platform !== "linux") return [];
  return killRepeatedly(newestFirst, (pid) => {
    if (!isMarked(pid, mark)) return null;
    signal(pid, "SIGKILL");
    onKill?.(pid);
    return { pid };
  });
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

function newestFirst(): number[] {
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => pid > 1 && pid !== process.pid)
    .reverse();
}
