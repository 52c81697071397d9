/** `rnix top` without a terminal to draw on: the runs once, as a table. */

import { runningMs } from "../../run/group.ts";
import { type Io, withWire } from "../io.ts";
import { formatCost, formatCount, formatElapsed } from "../output/format.ts";
import { localTime } from "../output/local-time.ts";
import { print } from "../output/print.ts";
import { styleOf } from "../output/style.ts";
import { type Column, table } from "../output/table.ts";
import { MAX_ENDED, Now } from "./now.ts";
import { type Arrangement, doingOf, type Row, rowsOf, titleOf } from "./rows.ts";

type RunRow = Extract<Row, { kind: "run" }>;

/** Columns of an intent. */
const INTENT = 200;

export async function printTop(io: Io, flags: { json: boolean }, by: Arrangement): Promise<number> {
  const now = await read(io);
  const at = Date.now();
  const rows = rowsOf(now, by, at, styleOf(io, io.stdout).glyph).filter((row) => row.kind === "run");
  const answer = rows.map(({ group, run }) => ({ group, ...run, asks: now.askOf(run.uuid) ?? null }));
  if (rows.length === 0 && !flags.json) io.stderr.write("no run is live or recorded\n");
  return print(io, flags, answer, (style) =>
    rows.length === 0 ? "" : table(rows, columns(now, at), io.stdout, style),
  );
}

function read(io: Io): Promise<Now> {
  return withWire(io, async (wire) => {
    const now = new Now();
    const newest = { all_projects: true, newest: true, limit: MAX_ENDED };
    now.ended((await wire.request("list_all_procs", newest)).processes);
    for await (const event of await wire.open("watch_procs", {})) {
      if (event.type !== "procs") continue;
      now.apply(event.payload);
      break;
    }
    return now;
  });
}

function columns(now: Now, at: number): Column<RunRow>[] {
  return [
    { title: "GROUP", value: ({ group }) => group },
    { title: "PID", value: ({ run, branch }) => `${branch}${run.pid}`, verbatim: true },
    { title: "AGENT", value: ({ run }) => run.agent, flexible: 8, leftOut: 4 },
    { title: "MODEL", value: ({ run }) => run.model || "-", leftOut: 1 },
    { title: "STEPS", value: ({ run }) => String(run.steps), right: true, leftOut: 3 },
    { title: "TOKENS", value: ({ run }) => formatCount(run.tokens_used), right: true, leftOut: 2 },
    { title: "COST", value: ({ run }) => formatCost(run.cost_usd), right: true, leftOut: 5 },
    { title: "TIME", value: ({ run }) => formatElapsed(runningMs(run, at)), right: true, leftOut: 6 },
    { title: "DOING", value: ({ run }) => doingOf(run, now, localTime), flexible: 12 },
    { title: "INTENT", value: ({ run }) => titleOf(run).slice(0, INTENT), flexible: 12, leftOut: 7 },
  ];
}
