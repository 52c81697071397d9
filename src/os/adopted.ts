import { libc } from "./libc.ts";
import { readStat } from "./linux-table.ts";
import { type Mark, readMark } from "./mark.ts";
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

/** What this process carries itself: a kernel may run below another kernel. */
let ownMark: Mark | null | undefined;

/**
 * The orphans that fell to this process as a subreaper: reaps the ended ones and gives those that run. Null
 * when it is no subreaper.
 */
export function adopted(): Orphan[] | null {
  if (!isSubreaper()) return null;
  if (ownMark === undefined) ownMark = readMark("self");
  const running: Orphan[] = [];
  for (const pid of directChildren()) {
    if (leaders.has(pid)) continue;
    const mark = readMark(pid);
    // Without a mark of Rnix it is not below one of our programs but somebody else's in this process.
    if (mark === null || mark === ownMark) continue;
    const found = readStat(pid);
    if (found?.zombie) libc()?.reap(pid);
    else if (found) running.push({ ...found, mark });
  }
  return running;
}
