/** Compares a replayed run with the expected one, and formats the report. */

import type { Difference, Receipt } from "../../protocol/methods.ts";
import { plural, printable } from "../output/format.ts";
import type { Style } from "../output/style.ts";
import type { ExpectedEnd } from "./script-head.ts";

/** Kinds of differences that --ignore accepts. */
export const KINDS = [
  "prompt",
  "tools",
  "rights",
  "limits",
  "checks",
  "result",
  "outcome",
] as const satisfies readonly Difference["kind"][];

export interface Report {
  same: boolean;
  /** The recorded run's UUID, or the script's file. */
  recorded: string;
  differences: Difference[];
  unplayed_steps: number;
  replayed: Receipt;
}

/** Differences between a run's end and the end its script expects. Without one, the run must complete. */
export function outcomeDifferences(expected: ExpectedEnd | undefined, receipt: Receipt): Difference[] {
  const { exit_code = 0, exit_reason, result } = expected ?? {};
  const found: Difference[] = [];
  const differs = (message: string, recorded: string, replayed: string): void => {
    found.push({ kind: "outcome", step: null, message, recorded, replayed });
  };
  const why = receipt.error === null ? "" : `: ${receipt.error.message}`;
  if (receipt.exit_code !== exit_code || (exit_reason !== undefined && receipt.exit_reason !== exit_reason)) {
    const wanted = `${exit_reason ?? "an end"} (exit ${exit_code})`;
    differs(`how it ended${why}`, wanted, `${receipt.exit_reason} (exit ${receipt.exit_code})`);
    return found;
  }
  const text = receipt.result ?? "";
  if (result !== undefined && !matchesResult(result, text)) differs("the result", described(result), text);
  return found;
}

/** Why the last steps of a run are not played. */
export function unplayedText(steps: number): string {
  const which = steps === 1 ? "the last step is" : `the last ${steps} steps are`;
  return `${which} not played: ${steps === 1 ? "it answers a message" : "they answer messages"} that came after an answer`;
}

export function reportText(report: Report, style: Style): string {
  const { unplayed_steps } = report;
  return comparisonText(report, style) + (unplayed_steps > 0 ? `${unplayedText(unplayed_steps)}\n` : "");
}

function comparisonText({ same, recorded, differences, replayed }: Report, style: Style): string {
  if (same) {
    const { steps, tool_calls, exit_reason, exit_code } = replayed;
    const what = `${plural(steps, "step")}, ${plural(tool_calls, "tool call")}, ${exit_reason} (exit ${exit_code})`;
    return `${style.green(`${style.glyph.ok} the same`)} as ${recorded}: ${what}\n`;
  }
  const head = `${style.red(`${style.glyph.failed} differs`)} from ${recorded} in ${plural(differences.length, "point")}:\n`;
  return head + differencesText(differences, style);
}

export function differencesText(differences: readonly Difference[], style: Style): string {
  return differences.map((one) => difference(one, style)).join("");
}

function difference({ kind, step, message, recorded, replayed }: Difference, style: Style): string {
  const where = step === null ? kind : `${kind}, step ${step}`;
  const [first = "", ...rest] = printable(message).split("\n");
  return [
    `\n${style.bold(where)}: ${first}\n`,
    ...rest.map((line) => `  ${line}\n`),
    ...side("-", recorded).map(style.red),
    ...side("+", replayed).map(style.green),
  ].join("");
}

function side(mark: string, text: string | null): string[] {
  if (text === null) return [];
  return printable(text)
    .split("\n")
    .map((line) => `  ${mark} ${line}\n`);
}

type Wanted = NonNullable<ExpectedEnd["result"]>;

function matchesResult(wanted: Wanted, text: string): boolean {
  if (typeof wanted === "string") return text.includes(wanted);
  const { equals, contains, lacks, matches } = wanted;
  return (
    (equals === undefined || equals.trimEnd() === text.trimEnd()) &&
    listOf(contains).every((part) => text.includes(part)) &&
    !listOf(lacks).some((part) => text.includes(part)) &&
    (matches === undefined || new RegExp(matches, "m").test(text))
  );
}

function described(wanted: Wanted): string {
  if (typeof wanted === "string") return `contains: ${wanted}`;
  return wanted.equals ?? JSON.stringify(wanted);
}

function listOf(value: string | string[] | undefined): string[] {
  return value === undefined ? [] : typeof value === "string" ? [value] : value;
}
