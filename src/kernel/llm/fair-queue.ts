/** A queue in which process trees take turns. */

/** What the queue orders its entries by. */
export interface QueueEntry {
  /** The process tree. Trees take turns. */
  readonly tree: string;
  /** Within its tree the lowest goes first. */
  readonly order: number;
  /** True for a retry: its tree goes to the front of the queue. */
  readonly isRetry: boolean;
}

interface TreeQueue<T> {
  tree: string;
  waiting: T[];
}

/**
 * A queue that is fair between process trees: the trees take turns, and within a tree the lowest order goes first. A
 * new tree goes to the end, so no entry waits longer than one turn of each tree before it. A retry goes to the front.
 */
export class FairQueue<T extends QueueEntry> {
  #queues: TreeQueue<T>[] = [];
  readonly #byTree = new Map<string, TreeQueue<T>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get trees(): number {
    return this.#queues.length;
  }

  *all(): Generator<T> {
    for (const { waiting } of this.#queues) yield* waiting;
  }

  add(turn: T): void {
    const queue = this.#byTree.get(turn.tree) ?? this.#addTree(turn);
    const before = queue.waiting.findLastIndex(({ order }) => order < turn.order);
    queue.waiting.splice(before + 1, 0, turn);
    this.#size++;
  }

  /** Removes and returns the first entry that `mayGo` accepts. Entries that it rejects keep their position. */
  next(mayGo: (turn: T) => boolean = () => true): T | undefined {
    for (const [index, queue] of this.#queues.entries()) {
      const at = queue.waiting.findIndex(mayGo);
      const [turn] = at < 0 ? [] : queue.waiting.splice(at, 1);
      if (turn === undefined) continue;
      this.#size--;
      this.#queues.splice(index, 1);
      if (queue.waiting.length > 0) this.#queues.push(queue);
      else this.#byTree.delete(queue.tree);
      return turn;
    }
    return undefined;
  }

  /** Removes one entry. Does nothing if it is not queued. */
  remove(turn: T): void {
    const queue = this.#byTree.get(turn.tree);
    const at = queue?.waiting.indexOf(turn) ?? -1;
    if (queue === undefined || at < 0) return;
    queue.waiting.splice(at, 1);
    this.#size--;
    if (queue.waiting.length > 0) return;
    this.#byTree.delete(queue.tree);
    this.#queues.splice(this.#queues.indexOf(queue), 1);
  }

  /** Removes and returns all entries that match. */
  removeWhere(which: (turn: T) => boolean): T[] {
    const removed: T[] = [];
    for (const queue of this.#queues) {
      removed.push(...queue.waiting.filter(which));
      queue.waiting = queue.waiting.filter((turn) => !which(turn));
      if (queue.waiting.length === 0) this.#byTree.delete(queue.tree);
    }
    this.#queues = this.#queues.filter(({ waiting }) => waiting.length > 0);
    this.#size -= removed.length;
    return removed;
  }

  #addTree({ tree, isRetry }: T): TreeQueue<T> {
    const queue: TreeQueue<T> = { tree, waiting: [] };
    this.#byTree.set(tree, queue);
    if (isRetry) this.#queues.unshift(queue);
    else this.#queues.push(queue);
    return queue;
  }
}
