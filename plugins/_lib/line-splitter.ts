/** Splits a stream of bytes into lines, in bounded memory. */

const NEWLINE = 10;
/** Bytes kept of the beginning and of the end of a line that is too long. */
const SAMPLE_BYTES = 4_096;

/** A line beyond the limit: its size, its first and its last bytes. */
export interface LongLine {
  bytes: number;
  head: string;
  tail: string;
}

/** Splits bytes into lines. Of a line longer than `maxBytes` it keeps only both ends, so memory is bounded. */
export class LineSplitter {
  readonly #maxBytes: number;
  readonly #decoder = new TextDecoder();
  #pieces: Uint8Array[] = [];
  #bytes = 0;
  #tail: Uint8Array = new Uint8Array();

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** The lines that these bytes complete, without their line ends. */
  push(data: Uint8Array): (string | LongLine)[] {
    const lines: (string | LongLine)[] = [];
    let from = 0;
    for (let at = data.indexOf(NEWLINE); at >= 0; at = data.indexOf(NEWLINE, from)) {
      this.#add(data.subarray(from, at));
      lines.push(this.rest());
      from = at + 1;
    }
    this.#add(data.subarray(from));
    return lines;
  }

  /** Whether the line that has not ended yet is beyond the limit. */
  get isTooLong(): boolean {
    return this.#bytes > this.#maxBytes;
  }

  /** Takes what came after the last line end; "" for nothing. */
  rest(): string | LongLine {
    const isTooLong = this.isTooLong;
    const bytes = this.#bytes;
    const text = this.#decoder.decode(this.#pieces[0] && Buffer.concat(this.#pieces));
    const tail = isTooLong ? this.#decoder.decode(this.#tail) : "";
    this.#pieces = [];
    this.#tail = new Uint8Array();
    this.#bytes = 0;
    return isTooLong ? { bytes, head: text, tail } : text;
  }

  #add(piece: Uint8Array): void {
    if (piece.length === 0) return;
    this.#bytes += piece.length;
    if (!this.isTooLong) {
      // A copy: the caller's buffer may be used again.
      this.#pieces.push(piece.slice());
      return;
    }
    if (this.#pieces.length > 1 || (this.#pieces[0]?.length ?? 0) > SAMPLE_BYTES) {
      const whole = Buffer.concat(this.#pieces);
      this.#pieces = [whole.subarray(0, SAMPLE_BYTES)];
      this.#tail = whole;
    }
    if (this.#pieces.length === 0) this.#pieces.push(piece.slice(0, SAMPLE_BYTES));
    this.#tail = Buffer.from(
      Buffer.concat([this.#tail.subarray(-SAMPLE_BYTES), piece]).subarray(-SAMPLE_BYTES),
    );
  }
}
