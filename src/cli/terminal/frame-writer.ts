/** Writes one frame of the live region. */

import { widthOf } from "./width.ts";

const NO_AUTOWRAP = "\u001b[?7l";
const AUTOWRAP = "\u001b[?7h";
const ERASE_RIGHT = "\u001b[K";
/** Not from the first column: at the screen's top-left corner tmux would copy the screen to the scroll-back first. */
export const ERASE_BELOW = "\r\u001b[K\u001b[C\u001b[J\r";

/** Characters of which terminals disagree how wide they are. */
const UNCERTAIN = /[\p{M}\p{Extended_Pictographic}\p{Regional_Indicator}\u200d]/u;

/** Collects the movements and texts of one frame, with rows counted from the region's top. */
export class FrameWriter {
  #text = "";
  #row = 0;
  /** Rows that exist from the region's top on. */
  #exist = 1;
  isEmpty = true;

  text(): string {
    return this.#text;
  }

  get exist(): number {
    return this.#exist;
  }

  add(text: string): void {
    this.#text += text;
    this.isEmpty = false;
  }

  /** The cursor is in this row of the region. */
  at(row: number, exist: number): void {
    this.#row = row;
    this.#exist = exist;
  }

  /** The region's top is `rows` above the cursor, and becomes the place to draw from. */
  toTop(rows: number): void {
    this.add(`${rows > 0 ? `\u001b[${rows}A` : ""}\r`);
    this.#row = 0;
    this.#exist = 1;
  }

  /** Begins a line without touching one that a program or the user left unfinished. */
  startLine(columns: number): void {
    // At the first column the spaces stay on the line; else they wrap to the next one.
    this.add(`${" ".repeat(Math.max(0, columns - 1))}\r${ERASE_RIGHT}`);
  }

  commit(lines: readonly string[]): void {
    this.#to(0);
    // A line that the terminal shows wider than we think takes a row that still shows the region.
    if (lines.some((line) => UNCERTAIN.test(line))) this.add(ERASE_BELOW);
    for (const line of lines) this.add(`\r${ERASE_RIGHT}${line}\r\n`);
    this.#exist = Math.max(1, this.#exist - lines.length);
    this.#stale = this.#exist;
  }

  /** Rows that still show what was there before a commit. */
  #stale = 0;

  region(before: readonly string[], lines: readonly string[]): void {
    const old = Math.max(before.length, this.#stale);
    let wrapping = true;
    lines.forEach((line, row) => {
      const was = before[row];
      if (was === line) return;
      this.#to(row);
      // A character that is wider than we think must not push the rest of the region down.
      if (wrapping) this.#text += NO_AUTOWRAP;
      wrapping = false;
      // The row is erased whole and first: tmux keeps the old length of a row whose end is erased last.
      const isCovered = was !== undefined && widthOf(was) <= widthOf(line);
      this.add(`\r${isCovered ? "" : ERASE_RIGHT}${line}`);
    });
    if (!wrapping) this.#text += AUTOWRAP;
    if (old <= lines.length) return;
    this.#to(lines.length);
    this.add(ERASE_BELOW);
  }

  park(cursor: { row: number; column: number } | undefined): void {
    this.#to(cursor?.row ?? 0);
    this.#text += cursor === undefined || cursor.column === 0 ? "\r" : `\r\u001b[${cursor.column}C`;
  }

  /**
   * Down by newlines, which also make rows: a terminal that has just become lower has dropped some, and a movement that
   * ends at its last row would leave the cursor elsewhere than we think.
   */
  #to(row: number): void {
    if (row < this.#row) this.#text += `\u001b[${this.#row - row}A`;
    else this.#text += "\r\n".repeat(row - this.#row);
    this.#exist = Math.max(this.#exist, row + 1);
    this.#row = row;
  }
}
