/** Renders Markdown as styled lines, whole or while it streams. */

import { Highlighter } from "./highlight.ts";
import { MarkdownBlocks, type Piece } from "./markdown-blocks.ts";
import { blockLines, codeLines } from "./markdown-layout.ts";
import type { TerminalStyle } from "./terminal-style.ts";

/** An unfinished block is laid out at each frame: at most its newest rows, and some more for its markup. */
const SPARE_COLUMNS = 40;

/** The lines of a whole text, each at most `columns` wide. */
export function renderMarkdown(text: string, columns: number, style: TerminalStyle): string[] {
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
  readonly #lines: PieceLines;

  constructor(style: TerminalStyle) {
    this.#lines = new PieceLines(style);
  }

  push(text: string): void {
    this.#blocks.push(text);
  }

  /** The lines that will not change any more and were not returned before. */
  finished(columns: number): string[] {
    return this.#blocks.take().flatMap((piece) => this.#lines.of(piece, columns));
  }

  /** The rest, at most `maxRows` lines: the newest. */
  rest(columns: number, maxRows: number): string[] {
    const lines = this.#lines.copy();
    const pieces = this.#blocks.rest(Math.max(1, maxRows) * (columns + SPARE_COLUMNS));
    const shown = pieces.flatMap((piece) => lines.of(piece, columns));
    return maxRows > 0 ? shown.slice(-maxRows) : [];
  }

  /** The lines that were not returned before. The stream is over. */
  end(columns: number): string[] {
    this.#blocks.end();
    return this.finished(columns);
  }
}

/** The lines of pieces, in order. */
class PieceLines {
  readonly #style: TerminalStyle;
  #highlighter: Highlighter;

  constructor(style: TerminalStyle, highlighter = new Highlighter("", style)) {
    this.#style = style;
    this.#highlighter = highlighter;
  }

  /** A second one in the same state. */
  copy(): PieceLines {
    return new PieceLines(this.#style, this.#highlighter.copy());
  }

  of(piece: Piece, columns: number): string[] {
    switch (piece.kind) {
      case "block": {
        const lines = blockLines(piece.source, columns, this.#style, piece.number);
        return piece.gap && lines.length > 0 ? ["", ...lines] : lines;
      }
      case "code":
        this.#highlighter = new Highlighter(piece.language, this.#style);
        return piece.gap ? [""] : [];
      case "code-line":
        return codeLines(piece.text, columns, this.#highlighter);
      case "code-end":
        return [];
    }
  }
}
