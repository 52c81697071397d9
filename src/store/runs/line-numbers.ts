/** The counter of a run's events, which numbers the lines of all its files. */

import { SCHEMA_VERSION } from "../../lib/schema-version.ts";

const HEAD = /^\{"v":\d+,"n":(\d+),(?:"p":(\d+),)?/;
const HEAD_BYTES = 60;

/**
 * Returns the number of a line, and that of the line before it; undefined for a line of an older Rnix. A torn line has a
 * number, too.
 */
export function numberOf(line: Uint8Array | undefined): { n: number; p: number | undefined } | undefined {
  if (line === undefined) return undefined;
  const head = Buffer.from(line.buffer, line.byteOffset, Math.min(line.length, HEAD_BYTES)).toString(
    "latin1",
  );
  const [, n, p] = HEAD.exec(head) ?? [];
  return n === undefined ? undefined : { n: Number(n), p: p === undefined ? undefined : Number(p) };
}

/** Numbers the lines of a run. It has one owner: the run's writer, or who has claimed the run. */
export class LineNumbers {
  #last: number;
  /** The last numbers, by file. */
  #ends: Map<string, number>;

  /** Continues after these last numbers, by file, and after `least`. */
  constructor(ends: ReadonlyMap<string, number> = new Map(), least = 0) {
    this.#ends = new Map(ends);
    this.#last = Math.max(least, ...ends.values());
  }

  /** The number of the last event. */
  get last(): number {
    return this.#last;
  }

  /** Takes the numbers of these many events, and returns the last. */
  take(events = 1): number {
    this.#last += events;
    return this.#last;
  }

  /** Returns the line of a record whose last event has number `n`. `linked`: with the number of the line before it. */
  line(file: string, n: number | undefined, record: object, linked = true): object {
    const p = linked ? this.#ends.get(file) : undefined;
    if (n !== undefined) this.#ends.set(file, n);
    return { ...{ v: SCHEMA_VERSION, n, p }, ...record, n, p };
  }

  /** Calls `write`. If it fails, the numbers that it took are free again. */
  undoneOnFailure<T>(write: () => T): T {
    const [last, ends] = [this.#last, new Map(this.#ends)];
    try {
      return write();
    } catch (error) {
      this.#last = last;
      this.#ends = ends;
      throw error;
    }
  }
}
