/** `rnix top` without a terminal to draw on: the runs once, as a table. */

import { type Io, withWire } from "../io.ts";
import { printCatalog } from "../output/catalog.ts";
import { localTime } from "../output/format.ts";
import { styleOf } from "../output/style.ts";
import type { Column } from "../output/table.ts";
import { COLUMNS } from "./columns.ts";
import { NEWEST, Now } from "./now.ts";
import { type Arrangement, doingOf, type Row, rowsOf, titleOf } from "./rows.ts";

type RunRow = Extract<Row, { kind: "run" }>;

/** Columns of an intent. */
const INTENT = 200;
/** What needs the widest window is left out first. */
const WIDEST = 1000;

export async function printTop(io: Io, flags: { json: boolean }, by: Arrangement): Promise<number> {
  const now = await read(io);
  const at = Date.now();
  const rows = rowsOf(now, by, at, styleOf(io, io.stdout).glyph).filter((row) => row.kind === "run");
  const answer = rows.map(({ group, run }) => ({ group, ...run, asks: now.askOf(run.uuid) ?? null }));
  const empty = by.filter === "" ? "no run is live or recorded" : "no run has these words";
  return printCatalog(io, rows, columns(now, at), { ...flags, answer, empty });
}

function read(io: Io): Promise<Now> {
  return withWire(io, async (wire) => {
    const now = new Now();
    now.ended((await wire.request("list_all_procs", NEWEST)).processes);
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
    ...COLUMNS.filter(({ title }) => title !== "PID").map(
      ({ title, from, right, value }): Column<RunRow> => ({
        title,
        right,
        leftOut: WIDEST - from,
        value: ({ run }) => value(run, at),
      }),
    ),
    { title: "DOING", value: ({ run }) => doingOf(run, now, localTime), flexible: 12 },
    { title: "INTENT", value: ({ run }) => titleOf(run).slice(0, INTENT), flexible: 12, leftOut: 7 },
  ];
}
