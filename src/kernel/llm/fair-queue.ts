/** Somebody's place among those who wait. */
export interface Turn {
  /** Whose turn it is when several wait: a process tree. */
  readonly tree: string;
  /** Within its tree the lower one goes first. */
  readonly order: number;
  /** It had its turn already, and nothing came of it. */
  readonly again: boolean;
}

interface Line<T> {
  tree: string;
  waiting: T[];
}

/**
 * Who waits, in a fair order: the trees take turns, and within a tree it goes by number. A tree that comes anew
 * stands behind those that wait already, so nobody is passed by more often than there are trees before it; one
 * whose turn came to nothing gets it back.
 */
export class FairQueue<T extends Turn> {
  #lines: Line<T>[] = [];
  readonly #lineOf = new Map<string, Line<T>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  get trees(): number {
    return this.#lines.length;
  }

  add(turn: T): void {
    const line = this.#lineOf.get(turn.tree) ?? this.#newLine(turn);
    const before = line.waiting.findLastIndex(({ order }) => order < turn.order);
    line.waiting.splice(before + 1, 0, turn);
    this.#size++;
  }

  /** Takes out whose turn it is, among those who may go: who may not is passed by, and keeps its place. */
  next(mayGo: (turn: T) => boolean = () => true): T | undefined {
    for (const [index, line] of this.#lines.entries()) {
      const at = line.waiting.findIndex(mayGo);
      const [turn] = at < 0 ? [] : line.waiting.splice(at, 1);
      if (turn === undefined) continue;
      this.#size--;
      this.#lines.splice(index, 1);
      if (line.waiting.length > 0) this.#lines.push(line);
      else this.#lineOf.delete(line.tree);
      return turn;
    }
    return undefined;
  }

  /** Takes out one. Nothing happens when it is not there any more. */
  leave(turn: T): void {
    const line = this.#lineOf.get(turn.tree);
    const at = line?.waiting.indexOf(turn) ?? -1;
    if (line === undefined || at < 0) return;
    line.waiting.splice(at, 1);
    this.#size--;
    if (line.waiting.length > 0) return;
    this.#lineOf.delete(line.tree);
    this.#lines.splice(this.#lines.indexOf(line), 1);
  }

  /** Takes out all of whom this is true. */
  remove(which: (turn: T) => boolean): T[] {
    const removed: T[] = [];
    for (const line of this.#lines) {
      removed.push(...line.waiting.filter(which));
      line.waiting = line.waiting.filter((turn) => !which(turn));
      if (line.waiting.length === 0) this.#lineOf.delete(line.tree);
    }
    this.#lines = this.#lines.filter(({ waiting }) => waiting.length > 0);
    this.#size -= removed.length;
    return removed;
  }

  #newLine({ tree, again }: T): Line<T> {
    const line: Line<T> = { tree, waiting: [] };
    this.#lineOf.set(tree, line);
    if (again) this.#lines.unshift(line);
    else this.#lines.push(line);
    return line;
  }
}
