import { isTooDeep, MAX_DOCUMENT_BYTES } from "./json-depth.ts";

const LF = 10;
const CR = 13;

/**
 * Looks at the events of a stream before the package parses them. One of fewer bytes than there may be levels is
 * never too deep: of those, nearly all there are, only the end is looked for.
 */
export class EventJsonDepth {
  /** Of the event that has not ended yet. */
  #parts: Uint8Array[] = [];
  #bytes = 0;
  /** Of its last line, and whether it is a lone CR so far. */
  #line = 0;
  #onlyCr = false;

  /** Bytes of the event that has not ended yet. */
  get held(): number {
    return this.#bytes;
  }

  /** Whether an event that ends within this chunk is too deep. */
  isTooDeep(chunk: Uint8Array): boolean {
    if (this.#bytes === 0 && chunk.byteLength <= MAX_DOCUMENT_BYTES && endsAnEvent(chunk)) return false;
    let from = 0;
    let start = 0;
    for (let at = chunk.indexOf(LF); at >= 0; at = chunk.indexOf(LF, start)) {
      this.#readLine(chunk, start, at);
      start = at + 1;
      if (this.#line === 0 || this.#onlyCr) {
        this.#keep(chunk.subarray(from, start));
        from = start;
        if (this.endsTooDeep()) return true;
      }
      this.#line = 0;
    }
    this.#readLine(chunk, start, chunk.byteLength);
    this.#keep(chunk.subarray(from));
    return false;
  }

  /** Whether the event is too deep that ends here: the stream's end is one, too. */
  endsTooDeep(): boolean {
    const event = this.#parts;
    const bytes = this.#bytes;
    this.#parts = [];
    this.#bytes = 0;
    return (
      bytes > MAX_DOCUMENT_BYTES && isTooDeep(dataOf(Buffer.concat(event).toString()), MAX_DOCUMENT_BYTES)
    );
  }

  #readLine(chunk: Uint8Array, from: number, to: number): void {
    if (from === to) return;
    this.#onlyCr = this.#line === 0 && to - from === 1 && chunk[from] === CR;
    this.#line += to - from;
  }

  #keep(part: Uint8Array): void {
    if (part.byteLength === 0) return;
    this.#parts.push(part);
    this.#bytes += part.byteLength;
  }
}

function endsAnEvent(chunk: Uint8Array): boolean {
  return chunk.at(-1) === LF && chunk.at(-2) === LF;
}

const DATA = "data:";

/** What its lines of data say together. */
function dataOf(event: string): string {
  const lines = event.split(/\r\n|\r|\n/).filter((line) => line.startsWith(DATA));
  return lines.map((line) => line.slice(DATA.length)).join("\n");
}
