/** Detects changed files by their times and sizes. */

import { type BigIntStats, statSync } from "node:fs";

/** A younger change is not trusted: file systems keep times in steps of a few ms. */
const GRAIN_MS = 50;

/**
 * Remembers the metadata of files (time, size, identity), so that a check for changes costs one stat each. A file that
 * changed just before it was read counts as changed next time too: a second change within the same clock tick would not
 * show.
 */
export class Stamps {
  #stamps: ReadonlyMap<string, string | null> = new Map();

  /** `readAt`: unix ms at which reading the files began. */
  take(files: readonly string[], readAt: number): void {
    this.#stamps = new Map(files.map((file) => [file, stampOf(file, readAt - GRAIN_MS)]));
  }

  /** True when there are files and none of them has changed. */
  get same(): boolean {
    if (this.#stamps.size === 0) return false;
    for (const [file, stamp] of this.#stamps) {
      if (stamp === null || stamp !== stampOf(file, Number.POSITIVE_INFINITY)) return false;
    }
    return true;
  }
}

/** Returns null for a file that is gone, or that changed at `settledBy` (unix ms) or later. */
function stampOf(file: string, settledBy: number): string | null {
  const found: BigIntStats | undefined = statSync(file, { bigint: true, throwIfNoEntry: false });
  if (!found || Number(found.ctimeMs) >= settledBy) return null;
  return `${found.mtimeNs}:${found.ctimeNs}:${found.size}:${found.ino}:${found.dev}`;
}
