import { join } from "node:path";
import type { LogPage } from "../store/append-log.ts";
import type { Run } from "./history.ts";
import type { DamagedLines } from "./protocol.ts";

/** So many are named; all are counted. */
const MOST_NAMED = 100;

/** Collects what of a run's records can't be read, by file and line, so that nobody takes a part for the whole. */
export class Damage {
  readonly #dir: string;
  readonly #live: boolean;
  readonly #files = new Map<string, { lines: Set<number>; more: number }>();

  constructor({ records, info }: Run) {
    this.#dir = records.dir(info.uuid);
    this.#live = info.ended_at_ms === null && info.exit_code === null;
  }

  /** Of one page of this file; a line may come again with the next. */
  add(file: string, page: Pick<LogPage<unknown>, "damaged" | "damagedLines" | "torn">): void {
    const found = this.#files.get(file) ?? { lines: new Set(), more: 0 };
    // The last line of one that runs is just being written.
    const unfinished = this.#live && page.torn ? Math.max(...page.damagedLines) : undefined;
    for (const line of page.damagedLines) if (line !== unfinished) found.lines.add(line);
    found.more += page.damaged - page.damagedLines.length;
    if (found.lines.size > 0) this.#files.set(file, found);
  }

  /** Files with damage. */
  list(): DamagedLines[] {
    return [...this.#files].map(([file, { lines, more }]) => ({
      file: join(this.#dir, file),
      count: lines.size + more,
      lines: [...lines].sort((a, b) => a - b).slice(0, MOST_NAMED),
    }));
  }

  get count(): number {
    return this.list().reduce((sum, { count }) => sum + count, 0);
  }
}
