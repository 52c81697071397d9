/** Formats the report of `rnix plugins check`. */

import type { CheckReport } from "../../server/offline-commands.ts";
import { plural } from "./format.ts";
import type { Style } from "./style.ts";
import { fields } from "./table.ts";

type Problem = CheckReport["problems"][number];

const READ_ONLY = "can be read. It was not loaded, because it is not trusted: use `rnix trust`, or --run";

/** The whole report, with file:line:column where it is known. */
export function pluginReport(report: CheckReport, style: Style): string {
  const verdict = report.ok
    ? style.green(`${style.glyph.ok} ${report.loaded ? "loads" : READ_ONLY}`)
    : style.red(`${style.glyph.failed} does not load`);
  const rows: [string, string][] = [
    ["file", report.file],
    ["made of", plural(report.files.length, "file")],
    ...(report.loaded ? [["needs", report.needs.join(", ") || "nothing"] satisfies [string, string]] : []),
    ...(report.secrets.length > 0 ? [["keys", report.secrets.join(", ")] satisfies [string, string]] : []),
    ...report.devices.map(({ path, tools, provider, keys }): [string, string] => [
      "device",
      `${path}${provider ? ", a model provider" : ""}${keys.length === 0 ? "" : ` that gets ${keys.join(" or ")}`}${tools.length === 0 ? "" : `: ${tools.join(", ")}`}`,
    ]),
    ...(report.mounts === null ? [] : [["mounts", `/mnt/${report.mounts}`] satisfies [string, string]]),
    ...report.takes.map((what): [string, string] => ["takes", `${what} of a stock plugin`]),
  ];
  const problems = report.problems.map(
    (problem) => `${style.red("error")}    ${problemPlace(problem)}\n${excerpt(problem)}`,
  );
  const warnings = report.warnings.map((problem) => `${style.yellow("warning")}  ${problemPlace(problem)}\n`);
  return `${style.bold(report.name)}: ${verdict}\n${fields(rows, style)}${problems.join("")}${warnings.join("")}`;
}

/** `file:line:column: message`, as far as it is known. The host's own formatter would load the host. */
export function problemPlace({ file, line, column, message }: Problem): string {
  return [file, line, column, ` ${message}`]
    .filter((part) => part !== undefined)
    .join(":")
    .trim();
}

/** Characters of a source line that are shown, and how many of them stand before the column. */
const SHOWN = 100;
const BEFORE = 60;

/** The source line of a problem with a caret below its column; "" when it is not known. */
export function excerpt({ source, line, column }: Problem): string {
  if (source === undefined || line === undefined || column === undefined) return "";
  const from = Math.max(0, column - 1 - BEFORE);
  const text = source
    .slice(from, from + SHOWN)
    .replaceAll("\t", " ")
    .trimEnd();
  const number = String(line);
  return `  ${number} | ${text}\n  ${" ".repeat(number.length)} | ${" ".repeat(column - 1 - from)}^\n`;
}
