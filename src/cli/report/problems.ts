/** Finds the places that compilers, linters and test runners name in the output of a failed check. */

import { statSync } from "node:fs";
import { join, resolve } from "node:path";
import { failedCheck } from "../../lib/check-attempts.ts";
import { innerPath } from "../../lib/inner-path.ts";
import type { Receipt } from "../../protocol/methods.ts";
import { printable } from "../output/format.ts";

export interface Problem {
  /** Relative to the folder of the run, with "/". */
  path: string;
  line: number;
  column: number | null;
  message: string;
  /** The command of the check. */
  check: string;
}

const MAX_PROBLEMS = 50;
const MAX_MESSAGE = 500;

/**
 * `src/a.ts:10:5: message` (GCC, ESLint's unix form, ruff, go, rustc), `src/a.ts(10,5): message` (tsc, MSBuild), and a
 * place that stands in brackets or after "at " (stack traces): its message is the nearest line above that names an error.
 */
const PLACES = [
  /^\s*(?<path>[^\s:()"']+):(?<line>\d+)(?::(?<column>\d+))?(?::|\s+-)\s*(?<message>\S.*)$/,
  /^\s*(?<path>[^\s:()"']+)\((?<line>\d+)(?:,(?<column>\d+))?\)\s*:\s*(?<message>\S.*)$/,
  /(?:\bat |\(|--> |^\s*)(?<path>[^\s:()"']+\.\w+):(?<line>\d+)(?::(?<column>\d+))?\)?\s*$/,
];
const NAMES_ERROR = /\b(error|fail(ed|ure)?|expected|panic|exception)\b/i;

/** Places in files that exist below `folder`, each once, in order. */
export function problemsOf({ checks }: Pick<Receipt, "checks">, folder: string): Problem[] {
  const check = failedCheck(checks);
  if (check?.output === undefined) return [];
  const found = new Map<string, Problem>();
  let said = `${check.command} failed`;
  for (const text of printable(check.output).split("\n")) {
    const place = PLACES.map((form) => form.exec(text)?.groups).find((groups) => groups !== undefined);
    const path = place?.path === undefined ? null : fileIn(folder, place.path);
    if (place === undefined || path === null) {
      if (NAMES_ERROR.test(text)) said = text.trim();
      continue;
    }
    const line = Number(place.line);
    const message = (place.message ?? said).slice(0, MAX_MESSAGE);
    const key = `${path}:${line}:${message}`;
    const column = place.column === undefined ? null : Number(place.column);
    if (!found.has(key)) found.set(key, { path, line, column, message, check: check.command });
    if (found.size >= MAX_PROBLEMS) break;
  }
  return [...found.values()];
}

/** The path relative to the folder; null for a path outside it, and for one that is no file. */
function fileIn(folder: string, named: string): string | null {
  const path = innerPath(folder, resolve(folder, named));
  if (!path) return null;
  return statSync(join(folder, path), { throwIfNoEntry: false })?.isFile()
    ? path.replaceAll("\\", "/")
    : null;
}
