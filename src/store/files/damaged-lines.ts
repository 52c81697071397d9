/** Collects the damaged lines of a run's files. */

import { join } from "node:path";
import type { LineFaults } from "./read-log.ts";

/** Maximum damaged lines that are listed; all are counted. */
const MOST_NAMED = 100;

export interface DamagedFile {
  /** Absolute where the collector has a folder. */
  file: string;
  count: number;
  /** The first hundred line numbers, from 1. */
  lines: number[];
  /** Number of readable lines that this user's Rnix did not write. */
  foreign: number;
  /** Places where lines were left out. Absent: none. */
  missing?: number;
}

/** Collects damaged and foreign lines of a run's files, so that incomplete data is reported. */
export class DamageCollector {
  readonly #files = new Map<string, { lines: Set<number>; more: number; foreign: number; missing: number }>();
  readonly #live: boolean;
  readonly #dir: string;

  /** `live`: the files are being written, so the last line may be incomplete. `dir`: the folder of the files. */
  constructor({ live, dir = "" }: { live: boolean; dir?: string }) {
    this.#live = live;
    this.#dir = dir;
  }

  /** Adds the faults of one page of a file. Pages may repeat a line. */
  add(file: string, page: LineFaults): void {
    const found = this.#files.get(file) ?? { lines: new Set(), more: 0, foreign: 0, missing: 0 };
    const unfinished = this.#live && page.torn ? Math.max(...page.damagedLines) : undefined;
    for (const line of page.damagedLines) if (line !== unfinished) found.lines.add(line);
    found.more += page.damaged - page.damagedLines.length;
    found.foreign += page.foreign;
    found.missing += page.missing;
    if (found.lines.size > 0 || found.foreign > 0 || found.missing > 0) this.#files.set(file, found);
  }

  list(): DamagedFile[] {
    return [...this.#files].map(([file, { lines, more, foreign, missing }]) => ({
      file: join(this.#dir, file),
      foreign,
      ...(missing > 0 && { missing }),
      count: lines.size + more,
      lines: [...lines].sort((a, b) => a - b).slice(0, MOST_NAMED),
    }));
  }

  /** Damaged lines of all files. */
  get count(): number {
    return this.list().reduce((sum, { count }) => sum + count, 0);
  }
}
