import { libc } from "./libc.ts";
import { readStat } from "./linux-table.ts";
import { type Mark, readMark } from "./mark.ts";
import type { Process } from "./process-table.ts";
import { directChildren, isSubreaper } from "./subreaper.ts";

export interface Orphan extends Process {
  mark: Mark;
}

/**
 * The orphans that fell to this process as a subreaper. `leaders` are the programs we started ourselves: Bun
 * waits for those, and reaping them here would take their exit status from it.
 */
export class Adopted {
  readonly #leaders: () => ReadonlySet<number>;
  /** What this process carries itself: a kernel may run below another kernel. */
  readonly #ownMark = readMark("self");

  constructor(leaders: () => ReadonlySet<number>) {
    this.#leaders = leaders;
  }

  /** Reaps the ended ones and gives those that run. Nobody without a subreaper. */
  running(): Orphan[] {
    if (!isSubreaper()) return [];
    const running: Orphan[] = [];
    const leaders = this.#leaders();
    for (const pid of directChildren()) {
      if (leaders.has(pid)) continue;
      const mark = readMark(pid);
      // Without a mark of Rnix it is not below one of our programs but somebody else's in this process.
      if (mark === null || mark === this.#ownMark) continue;
      const found = readStat(pid);
      if (found?.zombie) libc()?.reap(pid);
      else if (found) running.push({ ...found, mark });
    }
    return running;
  }
}
