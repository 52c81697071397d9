/** Asks the runtime to collect garbage, to keep the daemon small. */

/** Number of connections between two collections. */
const EVERY = 10;

/**
 * Keeps the daemon's memory small. The runtime by itself collects only after its heap has grown by half, and it hardly
 * returns memory to the system. A requested collection runs beside the thread and costs two milliseconds of another
 * core for each connection.
 */
export class GcHint {
  readonly #collect: () => void;
  #served = 0;

  constructor(collect: () => void = () => void Bun.gc(false)) {
    this.#collect = collect;
  }

  /** Called when a connection has ended, which often means that a run has ended. */
  served(): void {
    this.#served += 1;
    if (this.#served % EVERY === 0) this.#collect();
  }
}
