/** Lays out a table in the available columns. */

import { shareWidth } from "../output/table.ts";
import type { Look } from "./look.ts";
import { isolated } from "./safe-text.ts";
import { pad, widthOf, wrap } from "./width.ts";

interface Cell {
  /** Styled. */
  text: string;
  align: "left" | "right" | "center";
}

/** Narrower columns are not readable. When words would have to be broken, each row becomes a list of its cells. */
const MIN_COLUMN = 6;
/** Words up to this width are not broken while there is room. */
const MAX_WORD = 24;

/** The first row is the header. */
export function tableLines(rows: readonly (readonly Cell[])[], columns: number, style: Look): string[] {
  const [header = [], ...body] = rows;
  const widths = columnWidths(rows, columns - 3 * (header.length - 1));
  if (widths === null) return records(header, body, columns, style);
  const { mark, dim, bold } = style;
  const rule = dim(
    widths.map((width) => mark.rule.repeat(width)).join(`${mark.rule}${mark.cross}${mark.rule}`),
  );
  const laidOut = body.map((row) => rowLines(row, header, widths, style));
  // Without a line between them it is not clear where a row of several lines ends.
  const isTall = laidOut.some((lines) => lines.length > 1);
  const between = isTall ? [rule] : [];
  const head = rowLines(header, header, widths, style, bold);
  return [...head, rule, ...laidOut.flatMap((lines, at) => (at === 0 ? lines : [...between, ...lines]))];
}

function rowLines(
  row: readonly Cell[],
  header: readonly Cell[],
  widths: readonly number[],
  style: Look,
  paint = (text: string) => text,
): string[] {
  const cells = widths.map((width, at) => wrap(row[at]?.text ?? "", width));
  const height = Math.max(1, ...cells.map((lines) => lines.length));
  const separator = ` ${style.dim(style.mark.bar)} `;
  return Array.from({ length: height }, (_, line) =>
    widths
      .map((width, at) => {
        const text = cells[at]?.[line] ?? "";
        const align = row[at]?.align ?? header[at]?.align ?? "left";
        const last = at === widths.length - 1 && align === "left";
        return last ? paint(isolated(text)) : pad(paint(isolated(text)), width, align);
      })
      .join(separator)
      .trimEnd(),
  );
}

/** Each row as lines of "header: cell". */
function records(
  header: readonly Cell[],
  body: readonly (readonly Cell[])[],
  columns: number,
  { bold }: Look,
): string[] {
  const rows = body.length === 0 ? [header.map((cell) => ({ ...cell, text: "" }))] : body;
  return rows.flatMap((row, at) => {
    const lines = header.flatMap((head, column) => {
      const name = head.text === "" ? "" : `${bold(isolated(head.text))}: `;
      return wrap(name + isolated(row[column]?.text ?? ""), columns, "  ");
    });
    return at === 0 ? lines : ["", ...lines];
  });
}

/** null when the columns would be too narrow. */
function columnWidths(rows: readonly (readonly Cell[])[], available: number): number[] | null {
  const count = rows[0]?.length ?? 0;
  const column = (at: number) => rows.map((row) => row[at]?.text ?? "");
  const natural = Array.from({ length: count }, (_, at) => Math.max(1, ...column(at).map(widthOf)));
  const total = sum(natural);
  if (total <= available) return natural;
  const least = natural.map((width, at) => Math.min(width, Math.max(MIN_COLUMN, longestWord(column(at)))));
  return sum(least) > available ? null : shareWidth(least, natural, available - sum(least));
}

function longestWord(texts: readonly string[]): number {
  const words = texts.flatMap((text) => Bun.stripANSI(text).split(/\s+/));
  return Math.min(MAX_WORD, Math.max(1, ...words.map(widthOf)));
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
