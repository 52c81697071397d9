/** Finds out how many calls of a key a provider takes at a time. */

const DEFAULT_MAX = 32;
/** The limit at the start: enough for one run's children, and within the lowest tier of a provider. */
const INITIAL = 16;
/** Answers before the limit rises by one, until the provider has refused once. */
const EARLY_STEP = 4;
/** The number of answers needed for the next increase doubles at most this many times. */
const MAX_DOUBLINGS = 5;

/**
 * The limit on concurrent calls of one key, adapted to what the provider accepts. A refusal lowers it. After that, an
 * increase by one needs as many answers as the limit, and twice as many each time an increase is refused at once.
 * So a provider with a fixed limit refuses few calls.
 */
export class ConcurrencyLimit {
  #max: number;
  #limit: number;
  #answers = 0;
  #refused = false;
  /** The last change was an increase. */
  #justRaised = false;
  #doublings = 0;

  /** `max` is never exceeded. If it is configured, it is also the initial limit. */
  constructor(max = DEFAULT_MAX) {
    this.#max = max;
    this.#limit = max === DEFAULT_MAX ? INITIAL : max;
  }

  get max(): number {
    return this.#max;
  }

  /** Applies a changed configuration; without an argument, the default. */
  setMax(max = DEFAULT_MAX): void {
    if (max === this.#max) return;
    this.#max = max;
    this.#limit = this.#refused ? Math.min(this.#limit, max) : max;
  }

  get limit(): number {
    return this.#limit;
  }

  /** An answer came while `running` calls ran, itself included. It counts only if the limit was fully used. */
  answered(running: number): void {
    if (running < this.#limit || this.#limit >= this.#max) return;
    this.#answers++;
    if (this.#answers < (this.#refused ? this.#limit * 2 ** this.#doublings : EARLY_STEP)) return;
    this.#answers = 0;
    this.#limit++;
    if (this.#justRaised) this.#doublings = 0;
    this.#justRaised = true;
  }

  /** The provider refused a call while `others` ran. If none ran, concurrency was not the cause. */
  refused(others: number): void {
    if (others === 0) return;
    this.#refused = true;
    this.#answers = 0;
    if (this.#justRaised) this.#doublings = Math.min(MAX_DOUBLINGS, this.#doublings + 1);
    this.#justRaised = false;
    this.#limit = Math.max(1, Math.min(this.#limit, others));
  }
}
