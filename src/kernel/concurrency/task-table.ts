/** The table of one process's threads or coroutines, with their limits. */

import { SyscallError } from "../../plugin/index.ts";

/** What the table needs of a thread or a coroutine. */
interface Task {
  /** It has not ended. */
  readonly live: boolean;
  /** It has ended, and its result was read. */
  readonly wasRead: boolean;
}

/** Maximum live tasks of one process. */
const MAX_LIVE = 256;
/** Ended tasks count too: their results can be read until the reap. */
const MAX_KEPT = 1024;

/** The threads or the coroutines of one process, by ids that only grow. */
export class TaskTable<T extends Task> {
  readonly #tasks = new Map<number, T>();
  readonly #what: string;
  #next = 1;

  /** `what` is their name in errors: "thread". */
  constructor(what: string) {
    this.#what = what;
  }

  get size(): number {
    return this.#tasks.size;
  }

  /** Fails with EXHAUSTED if too many run, or too many have ended with unread results. */
  add(make: (id: number) => T): T {
    this.#makeRoom();
    const id = this.#next++;
    const task = make(id);
    this.#tasks.set(id, task);
    return task;
  }

  get(id: number): T {
    const task = this.#tasks.get(id);
    if (task) return task;
    const why =
      id >= 1 && id < this.#next
        ? `is forgotten: only ${MAX_KEPT} are kept, and its result was read`
        : `does not exist; ${this.#next - 1} were made`;
    throw new SyscallError("NOT_FOUND", `In this process ${this.#what} ${id} ${why}.`);
  }

  live(): T[] {
    return [...this.#tasks.values()].filter((task) => task.live);
  }

  #makeRoom(): void {
    if (this.live().length >= MAX_LIVE) {
      throw new SyscallError(
        "EXHAUSTED",
        `The process has ${MAX_LIVE} ${this.#what}s, the maximum. Wait for one to end.`,
      );
    }
    if (this.#tasks.size < MAX_KEPT) return;
    const oldest = [...this.#tasks].find(([, task]) => task.wasRead);
    if (!oldest) {
      throw new SyscallError(
        "EXHAUSTED",
        `The process keeps ${MAX_KEPT} ${this.#what}s, and no result of an ended one was read. Read some results first.`,
      );
    }
    this.#tasks.delete(oldest[0]);
  }
}
