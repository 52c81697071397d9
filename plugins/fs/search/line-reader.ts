/** Splits the bytes of a file into lines and matches each one. */

import { cutText } from "../display.ts";
import type { LinePattern } from "./line-pattern.ts";

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

export class LineReader {
  readonly #pattern: LinePattern;
  /** Drops a byte order mark and makes invalid UTF-8 visible. */
  readonly #decoder = new TextDecoder();
  #number = 0;
  /** The incomplete line. */
  #rest = "";

  constructor(pattern: LinePattern) {
    this.#pattern = pattern;
  }

  /** Calls `take` for each complete line. Returns false once `take` has returned false. */
  add(chunk: Uint8Array, take: (line: Line) => boolean): boolean {
    const text = this.#decoder.decode(chunk, { stream: true });
    let start = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", start)) {
      const line = this.#rest + text.slice(start, end);
      this.#rest = "";
      start = end + 1;
      if (!take(this.#lineOf(line))) return false;
    }
    this.#rest += text.slice(start);
    return true;
  }

  /** Passes the last line, if no newline ended it. */
  end(take: (line: Line) => boolean): void {
    const line = this.#rest + this.#decoder.decode();
    if (line !== "" && line !== "\r") take(this.#lineOf(line));
  }

  #lineOf(line: string): Line {
    const text = line.endsWith("\r") ? line.slice(0, -1) : line;
    const matched = this.#pattern.matches(text);
    return { number: ++this.#number, matched, text: this.#shown(text, matched) };
  }

  #shown(text: string, matched: boolean): string {
    if (text.length <= SHOWN_CHARS) return text;
    const wanted = matched ? this.#pattern.positionIn(text) - BEFORE_MATCH : 0;
    const start = Math.max(0, Math.min(wanted, text.length - SHOWN_CHARS));
    const part = cutText(text.slice(start).replace(/^[\uDC00-\uDFFF]/, ""), SHOWN_CHARS);
    return `${start > 0 ? "…" : ""}${part}… [line of ${text.length} characters, cut]`;
  }
}
