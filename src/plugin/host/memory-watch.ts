/** Ends Workers that do not respond while memory grows. */

import { realClock, type Timer } from "../../lib/clock.ts";

/** A Worker as the memory watch uses it. */
interface WatchedWorker {
  /** Calls back with the bytes of the Worker's heap when it answers. */
  probe(answered: (bytes: number) => void): void;
  /** Ends it because it holds too much, or does not answer while the process's memory grows. */
  endForMemory(why: string): void;
}

const MIB = 2 ** 20;
/** After this growth of the process, each Worker is probed. */
const ASK_BYTES = 256 * MIB;
/** After this growth, Workers that have not answered are ended. */
const END_BYTES = 512 * MIB;
/** The limit of one Worker's heap. */
const HEAP_BYTES = 1024 * MIB;
const LOOK_MS = 200;
/** While a Worker has not answered. */
const ASKED_LOOK_MS = 50;

/**
 * Limits the memory of plugins. Workers have no memory limit of their own, and one in an endless loop passes no deadline.
 * When the process grows, Workers that do not answer or hold too much are ended. There is one watch per process; it
 * costs a timer and a system call while there are Workers.
 */
class MemoryWatch {
  readonly #workers = new Set<WatchedWorker>();
  #timer: Timer | undefined;
  #base = 0;
  /** Workers that were probed and have not answered. */
  #asked: Set<WatchedWorker> | undefined;

  add(worker: WatchedWorker): void {
    this.#workers.add(worker);
    if (this.#timer) return;
    this.#base = process.memoryUsage.rss();
    this.#arm();
  }

  remove(worker: WatchedWorker): void {
    this.#workers.delete(worker);
    this.#answered(worker);
    if (this.#workers.size > 0) return;
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #arm(): void {
    this.#timer = realClock.timer(this.#asked ? ASKED_LOOK_MS : LOOK_MS, () => {
      this.#look();
      if (this.#workers.size > 0) this.#arm();
    });
  }

  #look(): void {
    const rss = process.memoryUsage.rss();
    this.#base = Math.min(this.#base, rss);
    const grown = rss - this.#base;
    if (!this.#asked && grown >= ASK_BYTES) this.#ask();
    else if (this.#asked && grown >= END_BYTES) this.#endSilent(this.#asked, grown);
  }

  #ask(): void {
    this.#asked = new Set(this.#workers);
    for (const worker of this.#workers) {
      worker.probe((bytes) => {
        if (bytes > HEAP_BYTES) {
          worker.endForMemory(`it held ${mib(bytes)} MiB of memory; a plugin may hold ${mib(HEAP_BYTES)}`);
        }
        this.#answered(worker);
      });
    }
  }

  #answered(worker: WatchedWorker): void {
    if (!this.#asked?.delete(worker) || this.#asked.size > 0) return;
    this.#asked = undefined;
    this.#base = process.memoryUsage.rss();
  }

  /** Reads pending answers first: they may have arrived while this thread was busy. */
  #endSilent(asked: Set<WatchedWorker>, grown: number): void {
    setImmediate(() => {
      if (asked !== this.#asked) return;
      for (const worker of [...asked]) {
        worker.endForMemory(`it did not respond while the memory of the process grew by ${mib(grown)} MiB`);
      }
    });
  }
}

/** The watch of this process. */
export const processMemory = new MemoryWatch();

function mib(bytes: number): number {
  return Math.round(bytes / MIB);
}
