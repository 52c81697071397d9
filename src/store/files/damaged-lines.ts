import type { LogPage } from "./append-log.ts";

/** So many are named; all are counted. */
const MOST_NAMED = 100;

/** Lines of one file that can't be read, or were not written by this user's Rnix. */
export interface DamagedFile {
  file: string;
  /** That can't be read. */
  count: number;
  /** Their numbers, from 1; the first hundred. */
  lines: number[];
  /** That can be read and are foreign. */
  foreign: number;
}

type Faults = Pick<LogPage<unknown>, "damaged" | "damagedLines" | "torn" | "foreign">;

/** Collects what of a run's files can't be read, by file and line, so that nobody takes a part for the whole. */
export class DamageCollector {
  readonly #files = new Map<string, { lines: Set<number>; more: number; foreign: number }>();
  readonly #live: boolean;

  /** `live`: somebody writes them, so the last line may not be whole yet. */
  constructor({ live }: { live: boolean }) {
    this.#live = live;
  }

  /** Of one page of this file; a line may come again with the next. */
  add(file: string, page: Faults): void {
    const found = this.#files.get(file) ?? { lines: new Set(), more: 0, foreign: 0 };
    const unfinished = this.#live && page.torn ? Math.max(...page.damagedLines) : undefined;
    for (const line of page.damagedLines) if (line !== unfinished) found.lines.add(line);
    found.more += page.damaged - page.damagedLines.length;
    found.foreign += page.foreign;
    if (found.lines.size > 0 || found.foreign > 0) this.#files.set(file, found);
  }

  /** Files with damage or foreign lines. */
  list(): DamagedFile[] {
    return [...this.#files].map(([file, { lines, more, foreign }]) => ({
      file,
      foreign,
      count: lines.size + more,
      lines: [...lines].sort((a, b) => a - b).slice(0, MOST_NAMED),
    }));
  }
}
