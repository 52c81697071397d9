/** Prints the lists of tools, agents, skills and providers. */

import type { Diagnostic } from "../../protocol/methods.ts";
import type { Io } from "../io.ts";
import { print } from "./print.ts";
import { type Column, table } from "./table.ts";

/** Prints a list as a table or as JSON. Parts that could not be loaded are named on stderr. */
export function printCatalog<Row>(
  io: Io,
  rows: Row[],
  columns: Column<Row>[],
  o: { json: boolean; diagnostics?: Diagnostic[] },
): number {
  for (const { path, message } of o.diagnostics ?? []) io.stderr.write(`not loaded: ${path}: ${message}\n`);
  return print(io, o, rows, (style) => table(rows, columns, io.stdout, style));
}
