/** The framing of the protocol: one JSON object per line. */

/** NDJSON: only "\n" ends a line, a "\r" before it is tolerated. Everything else (U+2028, too) is legal inside the JSON. */
export type Frame =
  | { kind: "line"; text: string }
  /** The line is longer than the limit. Reported once; the rest of it is dropped. */
  | { kind: "too_large" }
  /** The unfinished lines of all clients exceed the shared limit. Reported once, as above. */
  | { kind: "no_room" }
  | { kind: "not_utf8" };

/** The version of the protocol, in the answer of ping. */
export const PROTOCOL = 1;

/** Maximum length of an answer; longer ones are requested in pages. */
export const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

const LF = 10;
const CR = 13;

/** Bytes of unfinished lines that all framers which share it may hold together. */
export class FrameBudget {
  #left: number;

  constructor(bytes: number) {
    this.#left = bytes;
  }

  take(bytes: number): boolean {
    if (bytes > this.#left) return false;
    this.#left -= bytes;
    return true;
  }

  give(bytes: number): void {
    this.#left += bytes;
  }
}

/** Splits bytes into frames, with one unfinished line of at most `limit` bytes. Its owner calls `release` at the end. */
export class Framer {
  readonly #limit: number;
  readonly #budget: FrameBudget | undefined;
  readonly #decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  /** The unfinished line: its first `#size` bytes. */
  #buffer = new Uint8Array(0);
  #size = 0;
  #skipping = false;

  constructor(limit: number, room?: FrameBudget) {
    this.#limit = limit;
    this.#budget = room;
  }

  push(chunk: Uint8Array): Frame[] {
    const frames: Frame[] = [];
    let from = 0;
    for (let end = chunk.indexOf(LF); end >= 0; end = chunk.indexOf(LF, from)) {
      this.#line(chunk.subarray(from, end), frames);
      from = end + 1;
    }
    this.#append(chunk.subarray(from), frames);
    return frames;
  }

  /** The stream has ended: a last line without its newline counts. */
  end(): Frame[] {
    const frames: Frame[] = [];
    this.#line(new Uint8Array(0), frames);
    return frames;
  }

  /** Drops the unfinished line. */
  release(): void {
    this.#clear();
    this.#skipping = true;
  }

  /** Ends a line. A line that arrived in one chunk is not copied. */
  #line(last: Uint8Array, frames: Frame[]): void {
    const whole = this.#size === 0 && last.length <= this.#limit;
    if (!whole) this.#append(last, frames);
    if (!this.#skipping) {
      const line = withoutCr(whole ? last : this.#buffer.subarray(0, this.#size));
      if (line.length > 0) frames.push(this.#decode(line));
    }
    this.#clear();
    this.#skipping = false;
  }

  #append(part: Uint8Array, frames: Frame[]): void {
    if (this.#skipping || part.length === 0) return;
    const size = this.#size + part.length;
    const tooLarge = size > this.#limit;
    if (tooLarge || this.#budget?.take(part.length) === false) {
      this.release();
      frames.push({ kind: tooLarge ? "too_large" : "no_room" });
      return;
    }
    if (size > this.#buffer.length) {
      const larger = new Uint8Array(Math.max(size, this.#buffer.length * 2));
      larger.set(this.#buffer.subarray(0, this.#size));
      this.#buffer = larger;
    }
    this.#buffer.set(part, this.#size);
    this.#size = size;
  }

  #clear(): void {
    this.#budget?.give(this.#size);
    this.#buffer = new Uint8Array(0);
    this.#size = 0;
  }

  #decode(line: Uint8Array): Frame {
    try {
      return { kind: "line", text: this.#decoder.decode(line) };
    } catch (error) {
      if (error instanceof TypeError) return { kind: "not_utf8" };
      throw error;
    }
  }
}

export function encode(value: object): string {
  return `${JSON.stringify(value)}\n`;
}

function withoutCr(line: Uint8Array): Uint8Array {
  return line.at(-1) === CR ? line.subarray(0, -1) : line;
}
