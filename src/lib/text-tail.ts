/** Keeps the end of a text that arrives in pieces. */

/** Pieces are joined beyond this number, so that many small ones stay cheap. */
const MAX_PIECES = 64;

/** The end of a text that comes in pieces: at most `max` characters, however much was added. */
export class TextTail {
  readonly #max: number;
  #pieces: string[] = [];
  #length = 0;

  constructor(max: number) {
    this.#max = max;
  }

  add(text: string): void {
    if (text === "") return;
    if (text.length >= this.#max) {
      // What came before is not needed, and is not copied.
      this.#pieces.length = 0;
      this.#length = 0;
    }
    this.#pieces.push(text);
    this.#length += text.length;
    if (this.#length > 2 * this.#max || this.#pieces.length > MAX_PIECES) this.#trim();
  }

  get isEmpty(): boolean {
    return this.#length === 0;
  }

  /** The text so far, at most the newest `max` characters. */
  get text(): string {
    this.#trim();
    return this.#pieces[0] ?? "";
  }

  /** The text, which this tail then forgets. */
  take(): string {
    const { text } = this;
    this.#pieces = [];
    this.#length = 0;
    return text;
  }

  #trim(): void {
    const whole = this.#pieces.join("");
    const from = Math.max(0, whole.length - this.#max);
    // Half a surrogate pair is no character.
    const kept = whole.slice(isLowSurrogate(whole, from) ? from + 1 : from);
    this.#pieces = kept === "" ? [] : [kept];
    this.#length = kept.length;
  }
}

/** Line ends in the text. */
export function countLines(text: string): number {
  let count = 0;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) count++;
  return count;
}

function isLowSurrogate(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  return at > 0 && code >= 0xdc00 && code <= 0xdfff;
}
