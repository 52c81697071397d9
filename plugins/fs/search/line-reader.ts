import { cutText } from "../display.ts";
import type { LineMatcher } from "./line-matcher.ts";

export interface Line {
  /** Counted from 1. */
  number: number;
  matched: boolean;
  /** What is shown of it: all, or a part around where it matched. */
  text: string;
}

/** Of a long line so many characters are shown. */
const SHOWN_CHARS = 500;
/** Shown of them before the place where the line matched. */
const BEFORE_MATCH = 200;
/** Of a line that came in pieces so much is kept for showing; all of it is searched. */
const KEPT_CHARS = 64 * 1024;

/** Cuts a file's bytes into lines and has each one matched, whatever its length. */
export class LineReader {
  readonly #matcher: LineMatcher;
  /** Without the byte order mark, and with what is not UTF-8 made visible. */
  readonly #decoder = new TextDecoder();
  #number = 1;
  /** The beginning of the line that is not yet complete. */
  #kept = "";
  /** Its length, which may be more than what is kept. */
  #length = 0;
  #matchAt = 0;
  /** A carriage return at a piece's end, which belongs to the line's end if a newline follows. */
  #heldReturn = false;
  stopped = false;

  constructor(matcher: LineMatcher) {
    this.#matcher = matcher;
    matcher.begin();
  }

  /** Calls `take` for each line that is complete; false, and the end of it, when `take` wants no more. */
  add(chunk: Uint8Array, take: (line: Line) => boolean): boolean {
    return this.#text(this.#decoder.decode(chunk, { stream: true }), take);
  }

  /** The last line, when no newline ends it. */
  end(take: (line: Line) => boolean): void {
    if (!this.#text(this.#decoder.decode(), take)) return;
    if (this.#length > 0) take(this.#endLine());
  }

  #text(decoded: string, take: (line: Line) => boolean): boolean {
    let text = decoded;
    if (this.#heldReturn && text !== "") {
      text = `\r${text}`;
      this.#heldReturn = false;
    }
    let start = 0;
    for (let newline = text.indexOf("\n"); newline >= 0; newline = text.indexOf("\n", start)) {
      const end = newline > start && text[newline - 1] === "\r" ? newline - 1 : newline;
      this.#piece(text, start, end);
      start = newline + 1;
      if (!take(this.#endLine())) {
        this.stopped = true;
        return false;
      }
    }
    this.#heldReturn = start < text.length && text.endsWith("\r");
    this.#piece(text, start, this.#heldReturn ? text.length - 1 : text.length);
    return true;
  }

  #piece(text: string, start: number, end: number): void {
    if (this.#kept.length < KEPT_CHARS) this.#kept += text.slice(start, Math.min(end, start + KEPT_CHARS));
    const matcher = this.#matcher;
    let at = start;
    while (at < end && !matcher.matched) {
      matcher.feed(text, at, end);
      at = matcher.position;
      if (matcher.matched) this.#matchAt = this.#length + at - start;
    }
    this.#length += end - start;
  }

  #endLine(): Line {
    const matched = this.#matcher.matched || this.#matcher.end();
    const line = { number: this.#number, matched, text: this.#shown() };
    this.#number++;
    this.#kept = "";
    this.#length = 0;
    this.#matchAt = 0;
    this.#matcher.begin();
    return line;
  }

  #shown(): string {
    if (this.#length <= SHOWN_CHARS) return this.#kept;
    const wanted = this.#matchAt < this.#kept.length ? this.#matchAt - BEFORE_MATCH : 0;
    const start = Math.max(0, Math.min(wanted, this.#kept.length - SHOWN_CHARS));
    const part = cutText(this.#kept.slice(start).replace(/^[\uDC00-\uDFFF]/, ""), SHOWN_CHARS);
    return `${start > 0 ? "…" : ""}${part}… [line of ${this.#length} characters, cut]`;
  }
}
