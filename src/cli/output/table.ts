/** Formats tables and aligned fields. */

import type { Output } from "../io.ts";
import { cut, oneLine } from "./format.ts";
import type { Style } from "./style.ts";

export interface Column<Row> {
  title: string;
  value(row: Row): string;
  right?: boolean;
  /** Its spaces are significant, as in the lines of a tree. */
  verbatim?: boolean;
  /** On a terminal this column is truncated so that a row fits its line, to this width at least (true: 8). */
  flexible?: boolean | number;
  /** On a terminal its text continues on further lines instead of being truncated. */
  wrapped?: boolean;
  /** On a terminal this column is left out if the rows do not fit: the lowest number first. */
  leftOut?: number;
  /** False: it is not among the columns. */
  when?: boolean;
}

const GAP = "  ";
const MIN_FLEXIBLE = 8;

interface Cells extends Pick<Column<never>, "title" | "right" | "wrapped" | "leftOut"> {
  /** One for each row. */
  texts: string[];
  /** Columns that its widest cell takes. */
  natural: number;
  /** The least width that it is truncated to. */
  least: number;
}

/** Formats rows below their titles. On a terminal each row fits its line; in a pipe nothing is truncated. */
export function table<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  output: Output,
  style: Style,
): string {
  const all = columns.filter(({ when }) => when !== false).map((column) => cellsOf(rows, column));
  const shown = output.isTTY ? thatFit(all, output.columns) : all;
  const widths = output.isTTY ? shrunk(shown, output.columns) : shown.map(({ natural }) => natural);
  const line = (textOf: (column: Cells) => string): string =>
    shown
      .map((column, i) => {
        const text = cut(textOf(column), widths[i] ?? 0);
        const space = " ".repeat(Math.max(0, (widths[i] ?? 0) - Bun.stringWidth(text)));
        return column.right ? space + text : text + space;
      })
      .join(GAP)
      .trimEnd();
  const linesOf = (row: number): string[] => {
    const cells = shown.map(({ texts, wrapped }, i) => {
      const text = texts[row] ?? "";
      return wrapped && output.isTTY ? wrap(text, widths[i] ?? 0) : [text];
    });
    const height = Math.max(1, ...cells.map((cell) => cell.length));
    return Array.from({ length: height }, (_, at) =>
      line((column) => cells[shown.indexOf(column)]?.[at] ?? ""),
    );
  };
  const title = style.bold(line((column) => column.title));
  return `${[title, ...rows.flatMap((_, row) => linesOf(row))].join("\n")}\n`;
}

/** The lines of a text that is wrapped at words, and within a word that is too wide. */
function wrap(text: string, width: number): string[] {
  if (Bun.stringWidth(text) <= width) return [text];
  return Bun.wrapAnsi(text, width, { hard: true }).split("\n");
}

function cellsOf<Row>(rows: readonly Row[], { value, verbatim, flexible, ...column }: Column<Row>): Cells {
  const texts = rows.map((row) => (verbatim ? value(row) : oneLine(value(row), Number.POSITIVE_INFINITY)));
  const natural = Math.max(Bun.stringWidth(column.title), ...texts.map((text) => Bun.stringWidth(text)));
  const least = flexible === true ? MIN_FLEXIBLE : flexible || natural;
  return { ...column, texts, natural, least: Math.min(least, natural) };
}

/** Without the columns that have to be left out. */
function thatFit(all: readonly Cells[], room: number): readonly Cells[] {
  let shown = all;
  while (lineOf(shown.map(({ least }) => least)) > room) {
    const [next] = shown
      .filter(({ leftOut }) => leftOut !== undefined)
      .toSorted((a, b) => (a.leftOut ?? 0) - (b.leftOut ?? 0));
    if (next === undefined) break;
    shown = shown.filter((column) => column !== next);
  }
  return shown;
}

/** Their widths in a line of `room` columns: flexible ones share what the others leave. */
function shrunk(shown: readonly Cells[], room: number): number[] {
  const least = shown.map((column) => column.least);
  const natural = shown.map((column) => column.natural);
  return shareWidth(least, natural, room - lineOf(least));
}

/** The widths of columns that need `least`: `left` goes to those that want more, the narrow ones first. */
export function shareWidth(least: readonly number[], natural: readonly number[], left: number): number[] {
  const widths = [...least];
  for (let rest = left; rest > 0; ) {
    const growing = widths.flatMap((width, at) => (width < (natural[at] ?? 0) ? [at] : []));
    if (growing.length === 0) break;
    const share = Math.max(1, Math.floor(rest / growing.length));
    for (const at of growing) {
      const more = Math.min(share, rest, (natural[at] ?? 0) - (widths[at] ?? 0));
      widths[at] = (widths[at] ?? 0) + more;
      rest -= more;
    }
  }
  return widths;
}

function lineOf(widths: readonly number[]): number {
  return widths.reduce((sum, width) => sum + width, GAP.length * Math.max(0, widths.length - 1));
}

/** "name  value" lines, the names aligned. */
export function fields(pairs: readonly (readonly [string, string])[], style: Style): string {
  const width = Math.max(0, ...pairs.map(([name]) => name.length));
  return pairs
    .map(
      ([name, value]) =>
        `${style.dim(name.padEnd(width))}  ${value.replaceAll("\n", `\n${" ".repeat(width + 2)}`)}\n`,
    )
    .join("");
}
