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
  /** On a terminal this column is truncated so that a row fits its line. */
  flexible?: boolean;
}

const GAP = "  ";

/** Formats rows below their titles. On a terminal each row fits its line; in a pipe nothing is truncated. */
export function table<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  output: Output,
  style: Style,
): string {
  const cells = rows.map((row) =>
    columns.map(({ value, verbatim }) =>
      verbatim ? value(row) : oneLine(value(row), Number.POSITIVE_INFINITY),
    ),
  );
  const widths = columns.map((column, i) =>
    Math.max(Bun.stringWidth(column.title), ...cells.map((row) => Bun.stringWidth(row[i] ?? ""))),
  );
  if (output.isTTY) shrink(columns, widths, output.columns);
  const line = (row: string[]) =>
    row
      .map((cell, i) => {
        const text = cut(cell, widths[i] ?? 0);
        const space = " ".repeat(Math.max(0, (widths[i] ?? 0) - Bun.stringWidth(text)));
        return columns[i]?.right ? space + text : text + space;
      })
      .join(GAP)
      .trimEnd();
  const title = style.bold(line(columns.map((column) => column.title)));
  return `${[title, ...cells.map(line)].join("\n")}\n`;
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

function shrink(columns: readonly { flexible?: boolean }[], widths: number[], room: number): void {
  const over = widths.reduce((sum, width) => sum + width, GAP.length * (widths.length - 1)) - room;
  const flexible = columns.findIndex((column) => column.flexible);
  if (over <= 0 || flexible < 0) return;
  widths[flexible] = Math.max(8, (widths[flexible] ?? 0) - over);
}
