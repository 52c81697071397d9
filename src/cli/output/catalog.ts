/** Prints the lists of tools, agents, skills and providers. */

import type { Diagnostic } from "../../protocol/methods.ts";
import { EXIT } from "../exit.ts";
import type { Io } from "../io.ts";
import { styleOf } from "./style.ts";
import { type Column, table } from "./table.ts";

/** Prints a list as a table or as JSON. Parts that could not be loaded are named on stderr. */
export function printCatalog<Row>(
  io: Io,
  rows: Row[],
  columns: Column<Row>[],
  o: { json: boolean; diagnostics?: Diagnostic[] },
): number {
  for (const { path, message } of o.diagnostics ?? []) io.stderr.write(`not loaded: ${path}: ${message}\n`);
  const text = o.json
    ? `${JSON.stringify(rows, null, 2)}\n`
    : table(rows, columns, io.stdout, styleOf(io, io.stdout));
  io.stdout.write(text);
  return EXIT.ok;
}
