/** Measures, cuts and wraps styled lines by terminal columns. */

/** A style (`CSI … m`) or a link (`OSC 8`): the only escape sequences of a styled line. */
const SEQUENCE = /\u001b\[([0-9;:]*)m|\u001b\]8;([^;\u0007\u001b]*);([^\u0007\u001b]*)(?:\u0007|\u001b\\)/g;
const RESET = "\u001b[0m";
const LINK_END = "\u001b]8;;\u001b\\";
const PRINTABLE_ASCII = /^[ -~]*$/;

/** Columns that a styled line takes. */
export function widthOf(line: string): number {
  return PRINTABLE_ASCII.test(line) ? line.length : Bun.stringWidth(line);
}

/** The line cut to `columns`, with an ellipsis where text is missing. */
export function fit(line: string, columns: number, ellipsis = "…"): string {
  if (widthOf(line) <= columns) return line;
  if (columns <= 0) return "";
  return cutAt(line, columns - widthOf(ellipsis)) + ellipsis + (line.includes("\u001b") ? RESET : "");
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
  const wrapper = new Wrapper(Math.max(1, columns), widthOf(hang) < columns ? hang : "");
  let at = 0;
  for (const match of line.matchAll(SEQUENCE)) {
    wrapper.text(line.slice(at, match.index));
    wrapper.sequence(match[0], match[1]);
    at = match.index + match[0].length;
  }
  wrapper.text(line.slice(at));
  return wrapper.end();
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

class Wrapper {
  readonly #columns: number;
  readonly #hang: string;
  readonly #lines: string[] = [];
  readonly #style = new ActiveStyle();
  #line = "";
  #used = 0;
  /** The line has only its hanging indentation. */
  #empty = true;
  /** Spaces before the next word: dropped where the line breaks. */
  #spaces = 0;
  /** The word that is not placed yet, with the sequences inside it: it may continue after a sequence. */
  #word: (string | { raw: string; codes: string | undefined })[] = [];
  #wordWidth = 0;

  constructor(columns: number, hang: string) {
    this.#columns = columns;
    this.#hang = hang;
  }

  text(text: string): void {
    for (const [part] of text.matchAll(/ +|[^ ]+/g)) {
      if (part.startsWith(" ")) {
        this.#place();
        this.#spaces += part.length;
        continue;
      }
      for (const piece of breakable(part)) {
        if (piece.mayBreak) this.#place();
        this.#word.push(piece.text);
        this.#wordWidth += widthOf(piece.text);
      }
    }
  }

  sequence(raw: string, codes: string | undefined): void {
    this.#word.push({ raw, codes });
  }

  end(): string[] {
    this.#place();
    this.#lines.push(this.#line + this.#style.off());
    return this.#lines;
  }

  #place(): void {
    const word = this.#word;
    const width = this.#wordWidth;
    this.#word = [];
    this.#wordWidth = 0;
    if (width > 0) {
      if (this.#used + this.#spaces + width <= this.#columns) this.#space();
      else if (!this.#empty) this.#break();
      // Indentation of the first line, unless it leaves no room.
      else if (this.#used + this.#spaces < this.#columns) this.#space();
      this.#spaces = 0;
    }
    for (const part of word) {
      if (typeof part === "string") this.#put(part);
      else {
        this.#line += part.raw;
        this.#style.take(part.raw, part.codes);
      }
    }
  }

  #space(): void {
    this.#line += " ".repeat(this.#spaces);
    this.#used += this.#spaces;
  }

  #put(text: string): void {
    const width = widthOf(text);
    if (this.#used + width <= this.#columns) {
      this.#line += text;
      this.#used += width;
      this.#empty = false;
      return;
    }
    if (PRINTABLE_ASCII.test(text)) {
      this.#putAscii(text);
      return;
    }
    for (const { text: cluster, cells } of clusters(text)) {
      if (this.#used + cells > this.#columns && !this.#empty) this.#break();
      this.#line += cluster;
      this.#used += cells;
      this.#empty = false;
    }
  }

  #putAscii(text: string): void {
    for (let at = 0; at < text.length; ) {
      if (this.#used >= this.#columns && !this.#empty) this.#break();
      const part = text.slice(at, at + Math.max(1, this.#columns - this.#used));
      this.#line += part;
      this.#used += part.length;
      this.#empty = false;
      at += part.length;
    }
  }

  #break(): void {
    this.#lines.push(this.#line + this.#style.off());
    this.#line = this.#hang + this.#style.on();
    this.#used = widthOf(this.#hang);
    this.#empty = true;
  }
}

/** The styles and the link that hold at a place in a line. */
class ActiveStyle {
  #codes: { code: string; group: number }[] = [];
  #link = "";

  take(raw: string, codes: string | undefined): void {
    if (codes === undefined) {
      this.#link = /^\u001b\]8;[^;]*;(?:\u0007|\u001b\\)$/.test(raw) ? "" : raw;
      return;
    }
    const parts = codes.split(";");
    for (let i = 0; i < parts.length; i++) {
      const code = Number(parts[i]);
      // 38;5;n and 38;2;r;g;b are one code.
      const extra = code === 38 || code === 48 || code === 58 ? (parts[i + 1] === "5" ? 2 : 4) : 0;
      const whole = parts.slice(i, i + 1 + extra).join(";");
      i += extra;
      if (!code) this.#codes = [];
      else this.#set(code, whole);
    }
  }

  on(): string {
    return this.#codes.map(({ code }) => `\u001b[${code}m`).join("") + this.#link;
  }

  off(): string {
    return (this.#link === "" ? "" : LINK_END) + (this.#codes.length === 0 ? "" : RESET);
  }

  #set(code: number, whole: string): void {
    const group = groupOf(code);
    // Bold and dim are two styles that one code ends.
    const ends = ENDS.has(code);
    this.#codes = this.#codes.filter(
      (active) => active.group !== group || (!ends && group === 22 && active.code !== whole),
    );
    if (!ends) this.#codes.push({ code: whole, group });
  }
}

const ENDS = new Set([22, 23, 24, 25, 27, 28, 29, 39, 49, 54, 55, 59]);

/** The code that ends a style: two styles with the same one exclude each other, except bold and dim. */
function groupOf(code: number): number {
  if (ENDS.has(code)) return code;
  if (code === 1 || code === 2) return 22;
  if (code === 21) return 24;
  if (code >= 3 && code <= 9) return code === 6 ? 25 : code + 20;
  if ((code >= 30 && code <= 38) || (code >= 90 && code <= 97)) return 39;
  if ((code >= 40 && code <= 48) || (code >= 100 && code <= 107)) return 49;
  return code === 58 ? 59 : code;
}

/** Chinese, Japanese and Korean text has no spaces: a line may break before each of its characters. */
const CJK = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]/u;
/** Characters that must not begin a line. */
const CLOSING = /^[\p{Pe}\p{Pf}、。，．：；！？…ー々〻っゃゅょッャュョ・]/u;

function breakable(word: string): { text: string; mayBreak: boolean }[] {
  if (!CJK.test(word)) return [{ text: word, mayBreak: false }];
  let before = "";
  return [...clusters(word)].map(({ text }) => {
    const mayBreak = before !== "" && (CJK.test(text) || CJK.test(before)) && !CLOSING.test(text);
    before = text;
    return { text, mayBreak };
  });
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

/** The first `columns` of a styled line, with its sequences. */
function cutAt(line: string, columns: number): string {
  let shown = "";
  let used = 0;
  let at = 0;
  const take = (text: string): boolean => {
    for (const { text: cluster, cells } of clusters(text)) {
      if (used + cells > columns) return false;
      shown += cluster;
      used += cells;
    }
    return true;
  };
  let link = "";
  for (const match of line.matchAll(SEQUENCE)) {
    if (!take(line.slice(at, match.index))) return shown + link;
    shown += match[0];
    if (match[1] === undefined) link = match[3] === "" ? "" : LINK_END;
    at = match.index + match[0].length;
  }
  take(line.slice(at));
  return shown + link;
}
