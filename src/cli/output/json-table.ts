/** Prints a table of the rows in a JSON result, as a plugin's command describes it. */

import { type CommandColumn, type CommandTable, SyscallError } from "../../plugin/index.ts";
import type { Io } from "../io.ts";
import { formatCost, formatCount, formatElapsed, localTime, printable } from "./format.ts";
import { styleOf } from "./style.ts";
import { type Column, table } from "./table.ts";

/** Where a result has no value. */
const NOTHING = "-";
const RIGHT: ReadonlySet<CommandColumn["as"]> = new Set(["age", "count", "usd", "tokens"]);

/** `result`: undefined if it was no JSON. Fails with DRIVER if it has no rows. */
export function printJsonTable(io: Io, result: unknown, { rows, columns, empty }: CommandTable): void {
  const found = rows === undefined ? result : fieldAt(result, rows);
  if (!Array.isArray(found)) {
    const where = rows === undefined ? "" : ` in the field ${rows}`;
    throw new SyscallError("DRIVER", `expected a list in JSON${where}; --json prints what came`);
  }
  const now = Date.now();
  const shown = columns.map(
    ({ title, field, as = "text" }): Column<unknown> => ({
      title,
      value: (row) => cellText(fieldAt(row, field), as, now),
      right: RIGHT.has(as),
      ...(as === "text" && { flexible: true }),
    }),
  );
  if (found.length > 0) io.stdout.write(table(found, shown, io.stdout, styleOf(io, io.stdout)));
  else if (empty !== undefined) io.stderr.write(`${empty}\n`);
}

/** The value of a field, `a.b` for a field of a field. */
function fieldAt(value: unknown, path: string): unknown {
  let at: unknown = value;
  for (const key of path.split(".")) {
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, key)) return undefined;
    at = Reflect.get(at, key);
  }
  return at;
}

function cellText(value: unknown, as: NonNullable<CommandColumn["as"]>, now: number): string {
  if (value === undefined || value === null || value === "") return NOTHING;
  if (as === "time" || as === "age") {
    const ms = typeof value === "number" ? value : Date.parse(String(value));
    if (!Number.isFinite(ms)) return plainText(value);
    return as === "time" ? localTime(ms) : formatElapsed(Math.max(0, now - ms));
  }
  if (typeof value === "number") {
    if (as === "usd") return formatCost(value);
    if (as === "count" || as === "tokens") return formatCount(value);
  }
  return plainText(value);
}

function plainText(value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? NOTHING : value.map(plainText).join(",");
  return printable(typeof value === "object" ? JSON.stringify(value) : String(value));
}
