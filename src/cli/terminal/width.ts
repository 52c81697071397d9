/** Measures, cuts and wraps styled lines by terminal columns. */

const PRINTABLE_ASCII = /^[ -~]*$/;

export function widthOf(line: string): number {
  return PRINTABLE_ASCII.test(line) ? line.length : Bun.stringWidth(line);
}

/** The line cut to `columns`, with an ellipsis where text is missing. */
export function fit(line: string, columns: number, ellipsis = "…"): string {
  if (widthOf(line) <= columns) return line;
  if (columns <= 0) return "";
  const room = Math.max(0, columns - widthOf(ellipsis));
  const left = Bun.sliceAnsi(line, 0, room);
  // A wide character that begins in the last column is part of the slice.
  return (widthOf(left) > room ? Bun.sliceAnsi(line, 0, room - 1) : left) + ellipsis;
}

/** The line filled with spaces up to `columns`; a longer one as it is. */
export function pad(line: string, columns: number, align: "left" | "right" | "center" = "left"): string {
  const room = Math.max(0, columns - widthOf(line));
  const left = align === "left" ? 0 : align === "right" ? room : room >> 1;
  return " ".repeat(left) + line + " ".repeat(room - left);
}

/**
 * Wraps a styled line at words. Words wider than a line are broken between characters; styles and links continue on the
 * next line. `hang` begins each line but the first.
 */
export function wrap(line: string, columns: number, hang = ""): string[] {
  if (line.includes("\n")) return line.split("\n").flatMap((part) => wrap(part, columns, hang));
  if (widthOf(line) <= columns) return [line];
  const lines: string[] = [];
  const indent = widthOf(hang) < columns ? hang : "";
  const isStyled = line.includes("\u001b");
  // Where the new line begins and ends: its columns in `line`, and its characters if they have no styles.
  let from = { column: 0, index: 0 };
  let to = from;
  let isEmpty = true;
  /** Columns that the new line has left behind this column. */
  const roomAt = (column: number): number =>
    Math.max(1, columns) - (lines.length === 0 ? 0 : widthOf(indent)) - (column - from.column);
  const breakAt = (next: Place): void => {
    const text = isStyled ? Bun.sliceAnsi(line, from.column, to.column) : line.slice(from.index, to.index);
    lines.push((lines.length === 0 ? "" : indent) + text);
    from = next;
    isEmpty = true;
  };
  for (const { text, cells, at } of words(Bun.stripANSI(line))) {
    if (cells > roomAt(at.column) && !isEmpty) breakAt(at);
    // Spaces at the beginning of the first line stay, unless they leave no room.
    if (roomAt(at.column) < 1) from = at;
    to = at;
    for (const part of parts(text, cells, () => roomAt(to.column))) {
      if (part.cells > roomAt(to.column) && !isEmpty) breakAt(to);
      to = { column: to.column + part.cells, index: to.index + part.text.length };
      isEmpty = false;
    }
  }
  breakAt(to);
  return lines;
}

/** A word as it is placed: whole, or in the pieces that fit. `room`: the columns that are left. */
function* parts(word: string, cells: number, room: () => number): Generator<{ text: string; cells: number }> {
  if (cells <= room()) yield { text: word, cells };
  else if (!PRINTABLE_ASCII.test(word)) yield* clusters(word);
  else {
    for (let at = 0; at < word.length; ) {
      const text = word.slice(at, at + Math.max(1, room()));
      yield { text, cells: text.length };
      at += text.length;
    }
  }
}

interface Place {
  column: number;
  index: number;
}

/** The line with a block in this column, which stands for the cursor. */
export function withCursor(line: string, column: number): string {
  const padded = pad(line, column + 1);
  const under = Bun.stripANSI(Bun.sliceAnsi(padded, column, column + 2));
  const [cell] = [...clusters(under)];
  const width = Math.max(1, cell?.cells ?? 1);
  const left = Bun.sliceAnsi(padded, 0, column);
  return `${left}\u001b[7m${cell?.text ?? " "}\u001b[27m${Bun.sliceAnsi(padded, column + width)}`;
}

/** Rows that a terminal of this width makes of one line when it wraps it, wherever a word ends. */
export function rowsOf(line: string, columns: number): number {
  const width = widthOf(line);
  if (width <= columns) return 1;
  // A wide character that does not fit moves to the next row.
  let rows = 1;
  let used = 0;
  for (const { cells } of clusters(Bun.stripANSI(line))) {
    if (used + cells > columns) {
      rows++;
      used = 0;
    }
    used += cells;
  }
  return rows;
}

/** Chinese, Japanese and Korean text has no spaces: a line may break before each of its characters. */
const CJK = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]/u;
/** Characters that must not begin a line. */
const CLOSING = /^[\p{Pe}\p{Pf}、。，．：；！？…ー々〻っゃゅょッャュョ・]/u;

/** The parts of a line that are not broken while there is room, each with the place at which it begins. */
function* words(line: string): Generator<{ text: string; cells: number; at: Place }> {
  let at = { column: 0, index: 0 };
  for (const [part] of line.matchAll(/ +|[^ ]+/g)) {
    const pieces = part.startsWith(" ") || !CJK.test(part) ? [part] : breakable(part);
    for (const text of pieces) {
      const cells = widthOf(text);
      if (!text.startsWith(" ")) yield { text, cells, at };
      at = { column: at.column + cells, index: at.index + text.length };
    }
  }
}

function breakable(word: string): string[] {
  const pieces: string[] = [];
  let before = "";
  for (const { text } of clusters(word)) {
    const mayBreak = before === "" || ((CJK.test(text) || CJK.test(before)) && !CLOSING.test(text));
    if (mayBreak) pieces.push(text);
    else pieces.push((pieces.pop() ?? "") + text);
    before = text;
  }
  return pieces;
}

let segmenter: Intl.Segmenter | undefined;

/** Only characters of two columns that never combine: the usual Chinese, Japanese and Korean text. */
const ALL_WIDE =
  /^[\u3001-\u3029\u3041-\u3096\u30a1-\u30fa\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff60]*$/;

/** The characters as a reader sees them, each with its columns. */
export function* clusters(text: string): Generator<{ text: string; cells: number }> {
  if (PRINTABLE_ASCII.test(text)) {
    for (const char of text) yield { text: char, cells: 1 };
    return;
  }
  if (ALL_WIDE.test(text)) {
    for (const char of text) yield { text: char, cells: 2 };
    return;
  }
  // Made at first use: it takes 6 ms.
  segmenter ??= new Intl.Segmenter();
  for (const { segment } of segmenter.segment(text)) yield { text: segment, cells: Bun.stringWidth(segment) };
}
