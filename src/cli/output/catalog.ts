/** Prints lists, such as those of tools, agents and questions. */

import type { Diagnostic } from "../../protocol/methods.ts";
import { EXIT } from "../exit.ts";
import type { Io } from "../io.ts";
import { print } from "./print.ts";
import { type Column, table } from "./table.ts";

interface ListOptions {
  json: boolean;
  /** Parts that could not be loaded, for stderr. */
  diagnostics?: Diagnostic[];
  /** What stderr gets instead of a table without rows. */
  empty?: string;
  /** What --json prints; by default the rows. */
  answer?: unknown;
}

export function printCatalog<Row>(
  io: Io,
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  o: ListOptions,
): number {
  for (const one of o.diagnostics ?? []) io.stderr.write(`${problemLine(one)}\n`);
  if (rows.length === 0 && o.empty !== undefined && !o.json) {
    io.stderr.write(`${o.empty}\n`);
    return EXIT.ok;
  }
  return print(io, o, o.answer ?? rows, (style) => table(rows, columns, io.stdout, style));
}

/** A message with a position in the file begins with its path. */
function problemLine({ path, message }: Diagnostic): string {
  if (path === "") return `note: ${message}`;
  return message.startsWith(path) ? `not loaded: ${message}` : `not loaded: ${path}: ${message}`;
}
