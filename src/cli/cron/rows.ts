/** Formats the rows of the ledger: as a table, and as a strip of glyphs. */

import { localZone } from "../../lib/time-zone.ts";
import type { LedgerRow } from "../../plugin/index.ts";
import type { Io, Output } from "../io.ts";
import { formatCost, formatCount, formatElapsed, oneLine, plural, printable } from "../output/format.ts";
import { type Style, styleOf } from "../output/style.ts";
import { type Column, table } from "../output/table.ts";
import { wallTime } from "./when.ts";

/** Rows of a strip. */
const STRIP = 30;
const REASON_WIDTH = 400;
const WHAT_WIDTH = 24;
/** Runs that start in one millisecond differ in the last four. */
const RUN_CHARS = 18;
const YEAR_MS = 330 * 86_400_000;

type State = LedgerRow["state"];

/** In the order in which a strip counts them. */
const GLYPHS: readonly (readonly [State, unicode: string, ascii: string])[] = [
  ["running", "●", "*"],
  ["due", "…", "."],
  ["ran", "✔", "+"],
  ["failed", "✖", "X"],
  ["parked", "?", "?"],
  ["skipped", "–", "-"],
  ["missed", "○", "o"],
  ["blocked", "⊘", "#"],
];

/** The last rows, oldest first, one glyph each, and what they mean. */
export function strip(rows: readonly LedgerRow[], io: Io, output: Output): string {
  const style = styleOf(io, output);
  const plain = !output.isTTY || io.env.RNIX_ASCII === "1";
  const glyphs = new Map(
    GLYPHS.map(([state, unicode, ascii]) => [state, paint(style, state)(plain ? ascii : unicode)]),
  );
  const shown = rows.slice(-STRIP);
  const counts = [...glyphs].flatMap(([state, glyph]) => {
    const count = shown.filter((row) => row.state === state).length;
    return count === 0 ? [] : [`${glyph} ${count} ${state}`];
  });
  return `${shown.map(({ state }) => glyphs.get(state)).join("")}  ${counts.join(style.glyph.dot)}`;
}

export function paint(style: Style, state: State): (text: string) => string {
  if (state === "ran") return style.green;
  if (state === "failed" || state === "blocked") return style.red;
  if (state === "running" || state === "due") return style.cyan;
  return style.yellow;
}

export function rowsTable(rows: readonly LedgerRow[], io: Io, { withJob = false } = {}): string {
  const columns: Column<LedgerRow>[] = [
    { title: "JOB", value: ({ job }) => job, flexible: 8, when: withJob },
    { title: "DUE", value: ({ due }) => dueText(due) },
    { title: "STATE", value: ({ state, attempt }) => (attempt > 1 ? `${state} (${attempt})` : state) },
    { title: "LATE", value: lateOf, right: true, leftOut: 1 },
    { title: "TIME", value: timeOf, right: true },
    { title: "TOKENS", value: tokensOf, right: true, leftOut: 4 },
    { title: "COST", value: ({ cost_usd }) => formatCost(cost_usd), right: true, leftOut: 3 },
    // The beginning of a UUID names a run, too.
    { title: "RUN", value: ({ uuid }) => uuid?.slice(0, RUN_CHARS) ?? "-", leftOut: 2 },
    { title: "WHAT", value: whatOf, flexible: WHAT_WIDTH },
  ];
  return table(rows, columns, io.stdout, styleOf(io, io.stdout));
}

/** How to look at the last run that failed. */
export function failedHint(rows: readonly LedgerRow[]): string {
  const last = rows.findLast(({ state }) => state === "ran" || state === "failed");
  if (last?.state !== "failed" || last.uuid === null) return "";
  return `\nthe last failure: rnix log ${last.uuid.slice(0, RUN_CHARS)}\n`;
}

/** Without the year, unless it is long ago. */
function dueText(due: string): string {
  const wall = wallTime(Date.parse(due), localZone());
  return Date.now() - Date.parse(due) < YEAR_MS ? wall.slice("2027-".length) : wall;
}

function lateOf({ late_ms }: LedgerRow): string {
  return late_ms < 1000 ? "-" : formatElapsed(late_ms);
}

function tokensOf({ tokens_used }: LedgerRow): string {
  return tokens_used === 0 ? "-" : formatCount(tokens_used);
}

function timeOf({ started, ended }: LedgerRow): string {
  if (started === null) return "-";
  return formatElapsed(Math.max(0, (ended === null ? Date.now() : Date.parse(ended)) - Date.parse(started)));
}

/** Why nothing came of it, or the first line of the answer; and which deliveries wait or have failed. */
export function whatOf({ reason, result, state, exit_reason, delivery = [], count = 1 }: LedgerRow): string {
  const answer = state === "ran" ? firstLine(result ?? "") : "";
  const own = reason ?? (answer || (state === "ran" ? "" : (exit_reason ?? "")));
  const late = delivery.filter((one) => one.state !== "delivered");
  const sent = late.map(({ to, state, error }) => `not delivered to ${printable(to)} (${error ?? state})`);
  const many = count > 1 ? [`${plural(count, "instant")}`] : [];
  return oneLine([...many, own, ...sent].filter((part) => part !== "").join("; "), REASON_WIDTH);
}

export function firstLine(text: string): string {
  return text.trim().split("\n")[0]?.trim() ?? "";
}
