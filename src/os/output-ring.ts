/** A piece of what a program printed. */
export interface Piece {
  fd: 1 | 2;
  data: Uint8Array;
}

interface Placed extends Piece {
  /** Place of its first byte in the whole stream. */
  place: number;
}

/** The newest bytes of a stream, in pieces, addressed by their place in the whole of it. */
export class OutputRing {
  /** Place of the oldest byte that is still here, and the place after the newest. */
  start = 0;
  end = 0;
  readonly #bytes: number;
  #pieces: Placed[] = [];
  /** Pieces before this one are let go; they leave the array in bulk. */
  #first = 0;

  constructor(bytes: number) {
    this.#bytes = bytes;
  }

  /** True when one more piece of this size would be too much. */
  overflows(bytes: number): boolean {
    return this.end - this.start + bytes > this.#bytes || this.crowded;
  }

  /** True when there can be no more pieces, whatever their size. */
  get crowded(): boolean {
    return this.#count >= MAX_PIECES;
  }

  get #count(): number {
    return this.#pieces.length - this.#first;
  }

  push(fd: 1 | 2, data: Uint8Array): void {
    const last = this.#pieces.length > this.#first ? this.#pieces.at(-1) : undefined;
    if (last?.fd === fd && last.data.length + data.length <= SMALL) {
      this.#pieces[this.#pieces.length - 1] = { ...last, data: Buffer.concat([last.data, data]) };
    } else {
      // A small view would keep the whole buffer it looks at.
      const own = data.length * 2 < data.buffer.byteLength ? data.slice() : data;
      this.#pieces.push({ fd, data: own, place: this.end });
    }
    this.end += data.length;
  }

  /** Lets go of the oldest bytes until the rest fits, but of none at or behind `floor`. */
  trim(floor: number): void {
    while (this.start < floor && (this.end - this.start > this.#bytes || this.#count > MAX_PIECES)) {
      const piece = this.#pieces[this.#first];
      if (!piece) return;
      const excess = this.end - this.start - this.#bytes;
      const cut = Math.min(excess > 0 ? excess : piece.data.length, floor - this.start);
      if (cut < piece.data.length) {
        this.#pieces[this.#first] = { ...piece, data: piece.data.slice(cut), place: piece.place + cut };
        this.start += cut;
      } else {
        this.start += piece.data.length;
        this.#first += 1;
      }
    }
    if (this.#first * 2 > this.#pieces.length) {
      this.#pieces = this.#pieces.slice(this.#first);
      this.#first = 0;
    }
  }

  /** Everything that is here, oldest first. */
  pieces(): readonly Piece[] {
    return this.#pieces.slice(this.#first);
  }

  /** What is here from this place on, as much as one piece holds. `place` lies between start and end. */
  at(place: number): Piece {
    let low = this.#first;
    for (let high = this.#pieces.length - 1; low < high; ) {
      const middle = (low + high + 1) >> 1;
      if ((this.#pieces[middle]?.place ?? 0) <= place) low = middle;
      else high = middle - 1;
    }
    const piece = this.#pieces[low];
    if (!piece) throw new RangeError(`byte ${place} is not between ${this.start} and ${this.end}`);
    return { fd: piece.fd, data: piece.data.subarray(place - piece.place) };
  }
}

/** Pieces up to this size are put together, and so many of them are held: each has a cost of its own. */
const SMALL = 4096;
const MAX_PIECES = 4096;
