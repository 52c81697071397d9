import { libc } from "./libc.ts";
import { readStat } from "./linux-table.ts";
import { type Mark, readOthersMark } from "./mark.ts";
import type { Process } from "./process-table.ts";
import { directChildren, isSubreaper } from "./subreaper.ts";

export interface Orphan extends Process {
  mark: Mark;
}

/**
 * Programs that this process started and Bun waits for, with their marks. Of the process and not of one
 * kernel in it, as orphans are: they are never reaped here, which would take their exit status from Bun.
 */
export const leaders = new Map<number, Mark | null>();

/** Orphans seen before. Their PID stays theirs until they are reaped here, so they need no second look. */
const known = new Map<number, Orphan>();

/**
 * The orphans that fell to this process as a subreaper: reaps the ended ones and gives those that run. Null
 * when it is no subreaper.
 */
export function adopted(): Orphan[] | null {
  if (!isSubreaper()) return null;
  const running: Orphan[] = [];
  for (const pid of directChildren()) {
    const orphan = leaders.has(pid) ? null : (known.get(pid) ?? look(pid));
    if (!orphan) continue;
    if (libc()?.reap(pid)) {
      known.delete(pid);
    } else {
      known.set(pid, orphan);
      running.push(orphan);
    }
  }
  return running;
}

/** Without a mark of Rnix it is not below one of our programs but somebody else's in this process. */
function look(pid: number): Orphan | null {
  const mark = readOthersMark(pid);
  const found = mark === null ? null : readStat(pid);
  return mark !== null && found ? { ...found, mark } : null;
}
