/** The newest bytes of a program's output in memory, addressed by their offset in the whole output. */

/** A piece of what a program printed. */
export interface Piece {
  fd: 1 | 2;
  data: Uint8Array;
}

interface PositionedPiece extends Piece {
  /** Offset of its first byte in the whole output. */
  offset: number;
}

export class OutputRing {
  /** Offset of the oldest byte in memory, and the offset after the newest. */
  start = 0;
  end = 0;
  readonly #bytes: number;
  #pieces: PositionedPiece[] = [];
  /** Pieces before this index are removed; the array is shortened in bulk. */
  #first = 0;

  constructor(bytes: number) {
    this.#bytes = bytes;
  }

  /** True when one more piece of this size would exceed the limits. */
  overflows(bytes: number): boolean {
    return this.end - this.start + bytes > this.#bytes || this.isFull;
  }

  /** True at the maximum number of pieces. */
  get isFull(): boolean {
    return this.#count >= MAX_PIECES;
  }

  get #count(): number {
    return this.#pieces.length - this.#first;
  }

  push(fd: 1 | 2, data: Uint8Array): void {
    const last = this.#pieces.length > this.#first ? this.#pieces.at(-1) : undefined;
    if (last?.fd === fd && last.data.length + data.length <= MAX_MERGED_BYTES) {
      this.#pieces[this.#pieces.length - 1] = { ...last, data: Buffer.concat([last.data, data]) };
    } else {
      // A small view would hold its whole buffer in memory.
      const own = data.length * 2 < data.buffer.byteLength ? data.slice() : data;
      this.#pieces.push({ fd, data: own, offset: this.end });
    }
    this.end += data.length;
  }

  /** Removes the oldest bytes until the rest fits, but none at or after `floor`. */
  trim(floor: number): void {
    while (this.start < floor && (this.end - this.start > this.#bytes || this.#count > MAX_PIECES)) {
      const piece = this.#pieces[this.#first];
      if (!piece) return;
      const excess = this.end - this.start - this.#bytes;
      const cut = Math.min(excess > 0 ? excess : piece.data.length, floor - this.start);
      if (cut < piece.data.length) {
        this.#pieces[this.#first] = { ...piece, data: piece.data.slice(cut), offset: piece.offset + cut };
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

  /** Returns all pieces in memory, oldest first. */
  pieces(): readonly Piece[] {
    return this.#pieces.slice(this.#first);
  }

  /** Returns the bytes from `offset` to the end of its piece. `offset` must be at least `start` and below `end`. */
  at(offset: number): Piece {
    let low = this.#first;
    for (let high = this.#pieces.length - 1; low < high; ) {
      const middle = (low + high + 1) >> 1;
      if ((this.#pieces[middle]?.offset ?? 0) <= offset) low = middle;
      else high = middle - 1;
    }
    const piece = this.#pieces[low];
    if (!piece) throw new RangeError(`byte ${offset} is not between ${this.start} and ${this.end}`);
    return { fd: piece.fd, data: piece.data.subarray(offset - piece.offset) };
  }
}

/** Small pieces of one stream are merged up to this size, because each piece has a cost. */
const MAX_MERGED_BYTES = 4096;
const MAX_PIECES = 4096;
