/** Reads the lines around the matches of a search. */

import { cutText } from "../display.ts";
import type { LineMatcher } from "./line-matcher.ts";

export interface Line {
  /** Counted from 1. */
  number: number;
  matched: boolean;
  /** The text to show: all of it, or a part around the match. */
  text: string;
}

/** Characters that are shown of a long line. */
const SHOWN_CHARS = 500;
/** Of these, characters before the match. */
const BEFORE_MATCH = 200;
/** Characters of a line that are kept to be shown; all of the line is searched. */
const KEPT_CHARS = 64 * 1024;

/** Splits a file's bytes into lines of any length and matches each one. */
export class LineReader {
  readonly #matcher: LineMatcher;
  /** Drops a byte order mark and makes invalid UTF-8 visible. */
  readonly #decoder = new TextDecoder();
  #number = 1;
  /** The beginning of the incomplete line. */
  #head = "";
  /** The length of the incomplete line. */
  #length = 0;
  #matchAt = 0;
  /** A carriage return at the end of a piece, part of the line's end if a newline follows. */
  #heldReturn = false;
  stopped = false;

  constructor(matcher: LineMatcher) {
    this.#matcher = matcher;
    matcher.begin();
  }

  /** Calls `take` for each complete line. Returns false once `take` has returned false. */
  add(chunk: Uint8Array, take: (line: Line) => boolean): boolean {
    return this.#text(this.#decoder.decode(chunk, { stream: true }), take);
  }

  /** Passes the last line, if no newline ended it. */
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
    if (this.#head.length < KEPT_CHARS) this.#head += text.slice(start, Math.min(end, start + KEPT_CHARS));
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
    this.#head = "";
    this.#length = 0;
    this.#matchAt = 0;
    this.#matcher.begin();
    return line;
  }

  #shown(): string {
    if (this.#length <= SHOWN_CHARS) return this.#head;
    const wanted = this.#matchAt < this.#head.length ? this.#matchAt - BEFORE_MATCH : 0;
    const start = Math.max(0, Math.min(wanted, this.#head.length - SHOWN_CHARS));
    const part = cutText(this.#head.slice(start).replace(/^[\uDC00-\uDFFF]/, ""), SHOWN_CHARS);
    return `${start > 0 ? "…" : ""}${part}… [line of ${this.#length} characters, cut]`;
  }
}
