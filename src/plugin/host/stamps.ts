import { type BigIntStats, statSync } from "node:fs";

/** How much younger than our look at it a file must not be: file systems tell times in steps of some ms. */
const GRAIN_MS = 50;

/**
 * Remembers how files looked (time, size, identity), so that "has any of them changed?" costs one stat
 * each. A file that changed shortly before it was looked at counts as changed the next time too: a second
 * change within the same tick of the clock would not show.
 */
export class Stamps {
  #stamps: ReadonlyMap<string, string | null> = new Map();

  /** `readAt`: unix ms at which reading the files began. */
  take(files: readonly string[], readAt: number): void {
    this.#stamps = new Map(files.map((file) => [file, stampOf(file, readAt - GRAIN_MS)]));
  }

  /** True when there are files and every one of them is as it was. */
  get same(): boolean {
    if (this.#stamps.size === 0) return false;
    for (const [file, stamp] of this.#stamps) {
      if (stamp === null || stamp !== stampOf(file, Number.POSITIVE_INFINITY)) return false;
    }
    return true;
  }
}

/** Null for a file that is gone, or that changed at `settledBy` or later. */
function stampOf(file: string, settledBy: number): string | null {
  const found: BigIntStats | undefined = statSync(file, { bigint: true, throwIfNoEntry: false });
  if (!found || Number(found.ctimeMs) >= settledBy) return null;
  return `${found.mtimeNs}:${found.ctimeNs}:${found.size}:${found.ino}:${found.dev}`;
}
