/** The columns of `rnix top`. In the window their widths depend on its size only, so that a change moves nothing. */

import type { Group } from "../../run/group.ts";
import { runningMs } from "../../run/group.ts";
import { formatCost, formatCount, formatSeconds, oneLine } from "../output/format.ts";
import type { Look } from "../terminal/look.ts";
import { fit, pad } from "../terminal/width.ts";
import type { TopRun } from "./now.ts";
import type { Row } from "./rows.ts";

interface Column {
  title: string;
  width: number;
  /** Left out in a narrower window. */
  from: number;
  right?: true;
  value(run: TopRun, at: number): string;
}

export const COLUMNS: readonly Column[] = [
  { title: "PID", width: 6, from: 0, value: ({ pid }) => String(pid) },
  { title: "AGENT", width: 10, from: 100, value: ({ agent }) => agent },
  { title: "MODEL", width: 14, from: 130, value: ({ model }) => model },
  { title: "STEP", width: 4, from: 66, right: true, value: ({ steps }) => String(steps) },
  { title: "TOKENS", width: 6, from: 76, right: true, value: (run) => formatCount(run.tokens_used) },
  { title: "COST", width: 6, from: 80, right: true, value: (run) => formatCost(run.cost_usd) },
  { title: "TIME", width: 6, from: 50, right: true, value: (run, at) => formatSeconds(runningMs(run, at)) },
];

const GAP = "  ";
/** Left of a row: whether it is chosen. */
const MARK = 2;

export function titleLine(columns: number): string {
  return line(columns, ({ title }) => title, "INTENT", "DOING");
}

interface RunCells {
  title: string;
  doing: string;
  at: number;
  isChosen: boolean;
}

export function runLine(
  { run, branch, hidden, group }: Extract<Row, { kind: "run" }>,
  { title, doing, at, isChosen }: RunCells,
  columns: number,
  look: Look,
): string {
  const folded = hidden === 0 ? "" : `[+${hidden}] `;
  const text = line(columns, (column) => column.value(run, at), branch + folded + title, doing);
  if (isChosen) return look.cyan(`${look.glyph.prompt} ${text.slice(MARK)}`);
  return COLOURS[group] === "dim" ? look.dim(text) : text;
}

/** Of a group's title. */
export const COLOURS: Record<Group, "yellow" | "green" | "red" | "cyan" | "dim"> = {
  waits: "yellow",
  running: "green",
  unknown: "red",
  parked: "cyan",
  failed: "red",
  done: "dim",
};

function line(columns: number, cell: (column: Column) => string, title: string, doing: string): string {
  const shown = COLUMNS.filter(({ from }) => columns >= from);
  const cells = shown.map((column) =>
    pad(oneLine(cell(column), column.width), column.width, column.right ? "right" : "left"),
  );
  const taken = shown.reduce((sum, { width }) => sum + width + GAP.length, MARK);
  const rest = Math.max(2, columns - taken);
  const left = Math.max(1, Math.floor((rest - GAP.length) / 2));
  const right = rest - GAP.length - left;
  const texts =
    right < 8 ? [oneLineAt(title, rest)] : [pad(oneLineAt(title, left), left), oneLineAt(doing, right)];
  return `${" ".repeat(MARK)}${[...cells, ...texts].join(GAP)}`;
}

/** The spaces at its beginning are lines of the tree. */
function oneLineAt(text: string, width: number): string {
  const [space = ""] = /^[ │├└─|`-]*/.exec(text) ?? [];
  return fit(space + oneLine(text.slice(space.length), width), width);
}
