/** Renders Markdown as styled lines, whole or while it streams. */

import { plainText } from "./safe-text.ts";
import type { TerminalStyle } from "./terminal-style.ts";
import { wrap } from "./width.ts";

export function renderMarkdown(text: string, columns: number, style: TerminalStyle): string[] {
  const stream = new MarkdownStream(style);
  stream.push(text);
  return stream.end(columns);
}

/** An answer that streams: finished blocks are given out once, and the rest is rendered again at each frame. */
export class MarkdownStream {
  readonly #style: TerminalStyle;
  #text = "";

  constructor(style: TerminalStyle) {
    this.#style = style;
  }

  push(text: string): void {
    this.#text += text;
  }

  /** The lines that will not change any more and were not returned before. */
  finished(columns: number): string[] {
    const end = this.#text.lastIndexOf("\n") + 1;
    const text = this.#text.slice(0, end);
    this.#text = this.#text.slice(end);
    return text === "" ? [] : render(text.slice(0, -1), columns, this.#style);
  }

  /** The rest, at most `maxRows` lines: the newest. */
  rest(columns: number, maxRows: number): string[] {
    return this.#text === "" ? [] : render(this.#text, columns, this.#style).slice(-maxRows);
  }

  /** The lines that were not returned before. The stream is over. */
  end(columns: number): string[] {
    return [...this.finished(columns), ...this.rest(columns, Number.POSITIVE_INFINITY)];
  }
}

function render(text: string, columns: number, _style: TerminalStyle): string[] {
  return plainText(text)
    .split("\n")
    .flatMap((line) => wrap(line, columns));
}
