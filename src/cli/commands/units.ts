/** `rnix units`: lists background units, ends one, prints the output of one. */

import { unitDetail } from "../../daemons/unit-line.ts";
import { defineCommand } from "../command.ts";
import { bool, json } from "../flags.ts";
import { withWire } from "../io.ts";
import { printCatalog } from "../output/catalog.ts";
import { formatElapsed } from "../output/format.ts";
import { print } from "../output/print.ts";

const ID = { name: "ID", about: "of the unit, such as b0k3x9q2a; rnix units lists them" } as const;

const stop = defineCommand({
  about: "End a background unit: TERM, then KILL after the grace",
  args: [ID],
  flags: { json },
  examples: { "rnix units stop b0k3x9q2a": "its agent reads that it was killed" },
  run: (io, flags, [id = ""]) =>
    withWire(io, async (wire) => {
      const answer = await wire.request("stop_unit", { id });
      return print(io, flags, answer, () => `unit ${id} of process ${answer.pid} is terminating\n`);
    }),
});

const output = defineCommand({
  about: "Print the newest output of a background unit",
  args: [ID],
  flags: { json },
  examples: { "rnix units output b0k3x9q2a": "also of one that has ended, and of an ended run" },
  run: (io, flags, [id = ""]) =>
    withWire(io, async (wire) => {
      const answer = await wire.request("unit_output", { id });
      return print(io, flags, answer, () => answer.text.replace(/\n?$/, "\n"));
    }),
});

export default defineCommand({
  about: "List the background units of live processes",
  lists: true,
  flags: { "all-projects": bool("list every project"), json },
  examples: {
    "rnix units": "what runs beside the agents of this project",
    "rnix units stop b0k3x9q2a": "ends one",
    "rnix units output b0k3x9q2a": "what it has printed",
  },
  notes: ["rnix show PID lists those that have ended, too."],
  subcommands: { stop, output },
  async run(io, flags) {
    const all_projects = flags["all-projects"] || undefined;
    const { processes } = await withWire(io, (wire) =>
      wire.request("list_procs", { cwd: io.cwd, all_projects, waiting: true }),
    );
    const rows = processes.flatMap(({ pid, agent, units = [] }) =>
      units.map((unit) => ({ pid, agent, ...unit })),
    );
    return printCatalog(
      io,
      rows,
      [
        { title: "UNIT", value: ({ id }) => id },
        { title: "KIND", value: ({ kind }) => kind },
        { title: "STATUS", value: ({ status }) => status },
        { title: "PID", value: ({ pid }) => String(pid), right: true },
        { title: "AGENT", value: ({ agent }) => agent },
        {
          title: "ELAPSED",
          value: ({ started_at }) => formatElapsed(Date.now() - Date.parse(started_at)),
          right: true,
        },
        { title: "DESCRIPTION", value: (unit) => `${unit.description}${unitDetail(unit)}`, flexible: true },
      ],
      { ...flags, empty: "no background unit is live" },
    );
  },
});
