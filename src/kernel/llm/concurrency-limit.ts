const DEFAULT_MAX = 32;
/** A first burst of so many: what one run's children come to, and what the lowest tier of a provider takes. */
const FIRST = 16;
/** Answers per further place, until the provider has refused once. */
const EARLY_STEP = 4;
/** Doublings of the wait before the next try, at most. */
const MOST_DOUBLINGS = 5;

/**
 * How many calls of one key run at the same time: as many as its provider takes, found out by trying. A refusal says
 * that one too many was under way. From then on a further place costs as many answers as there are places, twice
 * as many each time that it was refused at once: a provider with a fixed limit refuses few of many.
 */
export class ConcurrencyLimit {
  #max: number;
  #now: number;
  #answers = 0;
  #refused = false;
  /** The last change was a place more. */
  #tried = false;
  #doublings = 0;

  /** `max`: never more, whatever the provider takes. Who has named it is taken at their word. */
  constructor(max = DEFAULT_MAX) {
    this.#max = max;
    this.#now = max === DEFAULT_MAX ? FIRST : max;
  }

  get max(): number {
    return this.#max;
  }

  /** Another one was named, or none any more. */
  setMax(max = DEFAULT_MAX): void {
    if (max === this.#max) return;
    this.#max = max;
    this.#now = this.#refused ? Math.min(this.#now, max) : max;
  }

  get limit(): number {
    return this.#now;
  }

  /** An answer came while so many ran, itself included. Only where all places are taken does it say something. */
  answered(running: number): void {
    if (running < this.#now || this.#now >= this.#max) return;
    this.#answers++;
    if (this.#answers < (this.#refused ? this.#now * 2 ** this.#doublings : EARLY_STEP)) return;
    this.#answers = 0;
    this.#now++;
    if (this.#tried) this.#doublings = 0;
    this.#tried = true;
  }

  /** The provider had too much while so many others ran. Alone, it was not for their number. */
  refused(others: number): void {
    if (others === 0) return;
    this.#refused = true;
    this.#answers = 0;
    if (this.#tried) this.#doublings = Math.min(MOST_DOUBLINGS, this.#doublings + 1);
    this.#tried = false;
    this.#now = Math.max(1, Math.min(this.#now, others));
  }
}
