/** Renders Markdown as styled lines, whole or while it streams. */

import { Highlighter } from "./highlight.ts";
import type { Look } from "./look.ts";
import { MarkdownBlocks, type Piece } from "./markdown-blocks.ts";
import { blockLines, codeLines } from "./markdown-layout.ts";

/** An unfinished block is laid out at each frame: at most its newest rows, and some more for its markup. */
const SPARE_COLUMNS = 40;

/** The lines of a whole text, each at most `columns` wide. */
export function renderMarkdown(text: string, columns: number, style: Look): string[] {
  const stream = new MarkdownStream(style);
  stream.push(text);
  return stream.end(columns);
}

/**
 * An answer that streams. Its finished blocks are given out once; the unfinished rest is laid out again at each frame.
 * What was given out is the same as `renderMarkdown` gives for the whole text, however it was cut.
 */
export class MarkdownStream {
  readonly #blocks = new MarkdownBlocks();
  readonly #style: Look;
  /** Of the block of code that is open. */
  #highlighter: Highlighter;

  constructor(style: Look) {
    this.#style = style;
    this.#highlighter = new Highlighter("", style);
  }

  push(text: string): void {
    this.#blocks.push(text);
  }

  /** The lines that will not change any more and were not returned before. */
  finished(columns: number): string[] {
    return this.#lines(this.#blocks.take(), columns);
  }

  /** The rest, at most `maxRows` lines: the newest. */
  rest(columns: number, maxRows: number): string[] {
    const highlighter = this.#highlighter;
    this.#highlighter = highlighter.copy();
    const pieces = this.#blocks.rest(Math.max(1, maxRows) * (columns + SPARE_COLUMNS));
    const shown = this.#lines(pieces, columns);
    this.#highlighter = highlighter;
    return maxRows > 0 ? shown.slice(-maxRows) : [];
  }

  /** The lines that were not returned before. The stream is over. */
  end(columns: number): string[] {
    this.#blocks.end();
    return this.finished(columns);
  }

  #lines(pieces: readonly Piece[], columns: number): string[] {
    return pieces.flatMap((piece) => {
      if (piece.kind === "code-line") return codeLines(piece.text, columns, this.#highlighter);
      if (piece.kind === "code") this.#highlighter = new Highlighter(piece.language, this.#style);
      const lines =
        piece.kind === "block" ? blockLines(piece.source, columns, this.#style, piece.number) : [];
      return piece.gap && (piece.kind === "code" || lines.length > 0) ? ["", ...lines] : lines;
    });
  }
}
