/** Ends the process of a plugin that holds too much memory. */

import { realClock, type Timer } from "../../lib/clock.ts";

const MIB = 2 ** 20;
/** The limit of one plugin. */
const MAX_BYTES = 1024 * MIB;
const LOOK_MS = 200;

/** Looks at one process until it is stopped, and ends it above the limit. */
export class MemoryWatch {
  readonly #memory: () => number | null;
  readonly #end: (why: string) => void;
  #timer: Timer | undefined;

  constructor(memory: () => number | null, end: (why: string) => void) {
    this.#memory = memory;
    this.#end = end;
    this.#arm();
  }

  stop(): void {
    this.#timer?.cancel();
  }

  #arm(): void {
    this.#timer = realClock.timer(LOOK_MS, () => {
      const bytes = this.#memory();
      if (bytes !== null && bytes > MAX_BYTES)
        this.#end(`it held ${mib(bytes)} MiB of memory; a plugin may hold ${mib(MAX_BYTES)}`);
      else this.#arm();
    });
  }
}

function mib(bytes: number): number {
  return Math.round(bytes / MIB);
}
