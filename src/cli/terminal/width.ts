/** Measures, cuts and wraps styled lines by terminal columns. */

const PRINTABLE_ASCII = /^[ -~]*$/;

/** Columns that a styled line takes. */
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
  // Columns of `line`: where the new line begins and ends. It is empty until a word is placed.
  let from = 0;
  let to = 0;
  let isEmpty = true;
  const fits = (end: number): boolean =>
    end - from + (lines.length === 0 ? 0 : widthOf(indent)) <= Math.max(1, columns);
  const breakAt = (next: number): void => {
    lines.push((lines.length === 0 ? "" : indent) + Bun.sliceAnsi(line, from, to));
    from = next;
    isEmpty = true;
  };
  for (const { text, at, end } of words(Bun.stripANSI(line))) {
    if (!fits(end) && !isEmpty) breakAt(at);
    // Spaces at the beginning of the first line stay, unless they leave no room.
    if (!fits(at + 1)) from = at;
    to = at;
    for (const part of fits(end) ? [{ cells: end - at }] : clusters(text)) {
      if (!fits(to + part.cells) && !isEmpty) breakAt(to);
      to += part.cells;
      isEmpty = false;
    }
  }
  breakAt(to);
  return lines;
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

/** The parts of a line that are not broken while there is room, each with the columns at which it begins and ends. */
function* words(line: string): Generator<{ text: string; at: number; end: number }> {
  let end = 0;
  for (const [part] of line.matchAll(/ +|[^ ]+/g)) {
    const pieces = part.startsWith(" ") || !CJK.test(part) ? [part] : breakable(part);
    for (const text of pieces) {
      const at = end;
      end += widthOf(text);
      if (!text.startsWith(" ")) yield { text, at, end };
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
