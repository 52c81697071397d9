import { realTimers, type Timers } from "./timers.ts";

/** One Worker, as the watch sees it. */
interface WatchedWorker {
  /** Calls back with the bytes of the Worker's heap when it answers, never when it does not. */
  probe(answered: (bytes: number) => void): void;
  /** Ends it: it holds too much, or does not answer while the memory of the process grows. */
  endForMemory(why: string): void;
}

interface MemoryPorts {
  /** Resident bytes of this process. */
  rss(): number;
  timers: Timers;
}

const MIB = 2 ** 20;
/** The process has grown by so much: each Worker is asked for a sign of life. */
const ASK_BYTES = 256 * MIB;
/** It has grown by so much: Workers that have not answered are ended. */
const END_BYTES = 512 * MIB;
/** What the heap of one Worker may hold. */
const HEAP_BYTES = 1024 * MIB;
const LOOK_MS = 200;
/** As long as a Worker has not answered. */
const ASKED_LOOK_MS = 50;

/**
 * Bounds the memory of plugins. Workers have no limit of their own, and one in a loop that never yields is past no
 * deadline. What grows is the process: a Worker that gives no sign of life meanwhile is ended, and one that answers
 * and holds too much. One watch a process, which costs a timer and a system call as long as there are Workers.
 */
export class MemoryWatch {
  readonly #o: MemoryPorts;
  readonly #workers = new Set<WatchedWorker>();
  #timer: { cancel(): void; unref?(): void } | undefined;
  #base = 0;
  /** Those that have been asked and have not answered. */
  #asked: Set<WatchedWorker> | undefined;

  constructor(o: MemoryPorts = { rss: process.memoryUsage.rss, timers: realTimers }) {
    this.#o = o;
  }

  add(worker: WatchedWorker): void {
    this.#workers.add(worker);
    if (this.#timer) return;
    this.#base = this.#o.rss();
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
    this.#timer = this.#o.timers.timer(this.#asked ? ASKED_LOOK_MS : LOOK_MS, () => {
      this.#look();
      if (this.#workers.size > 0) this.#arm();
    });
    this.#timer.unref?.();
  }

  #look(): void {
    const rss = this.#o.rss();
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
    this.#base = this.#o.rss();
  }

  /** Answers may have come while this thread was busy: they are read first. */
  #endSilent(asked: Set<WatchedWorker>, grown: number): void {
    setImmediate(() => {
      if (asked !== this.#asked) return;
      for (const worker of [...asked]) {
        worker.endForMemory(
          `it gave no sign of life while the memory of the process grew by ${mib(grown)} MiB`,
        );
      }
    });
  }
}

/** Of this process: there is one memory. */
export const processMemory = new MemoryWatch();

function mib(bytes: number): number {
  return Math.round(bytes / MIB);
}
