/** Number of connections between two collections. */
const EVERY = 10;

/**
 * Keeps the daemon small. By itself the runtime lets what ended runs leave behind grow by half of its heap
 * before it collects, and what it took once it hardly gives back. Asked for, it collects beside the thread, at
 * the price of two milliseconds of another core for each connection.
 */
export class GcHint {
  readonly #collect: () => void;
  #served = 0;

  constructor(collect: () => void = () => void Bun.gc(false)) {
    this.#collect = collect;
  }

  /** A connection has ended, and with it most often a run. */
  served(): void {
    this.#served += 1;
    if (this.#served % EVERY === 0) this.#collect();
  }
}
