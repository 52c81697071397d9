/** `rnix asks`: lists the questions that wait for an answer. */

import type { Answers } from "../../server/methods/method-table.ts";
import { defineCommand } from "../command.ts";
import { EXIT } from "../exit.ts";
import { json } from "../flags.ts";
import { refuseInsideRun, withWire } from "../io.ts";
import { askedLine } from "../output/ask.ts";
import { formatElapsed, printable } from "../output/format.ts";
import { styleOf } from "../output/style.ts";
import { table } from "../output/table.ts";

type Listed = Answers["list_asks"]["asks"][number];

/** Columns of the call that is asked about. */
const ASKED_WIDTH = 200;

export default defineCommand({
  about: "List the questions of live and suspended runs that wait for your answer",
  lists: true,
  flags: { json },
  examples: [
    { line: "rnix asks", about: "of all projects, the oldest first" },
    { line: "rnix answer 1f3a9c02 yes", about: "answers one; a suspended run is resumed by it" },
  ],
  async run(io, flags) {
    await refuseInsideRun(io, "asks");
    return withWire(io, async (wire) => {
      const { asks } = await wire.request("list_asks", {});
      if (flags.json) {
        io.stdout.write(`${JSON.stringify(asks, null, 2)}\n`);
        return EXIT.ok;
      }
      if (asks.length === 0) io.stderr.write("no run waits for an answer\n");
      else io.stdout.write(table(asks, columns(Date.now()), io.stdout, styleOf(io, io.stdout)));
      return EXIT.ok;
    });
  },
});

function columns(now: number) {
  return [
    { title: "ID", value: ({ request_id }: Listed) => request_id },
    { title: "PID", value: ({ pid }: Listed) => String(pid), right: true },
    { title: "AGENT", value: ({ agent }: Listed) => printable(agent) },
    { title: "STATE", value: ({ state }: Listed) => state },
    { title: "SINCE", value: ({ asked_at_ms }: Listed) => formatElapsed(now - asked_at_ms), right: true },
    {
      title: "LEFT",
      value: ({ until_ms }: Listed) => formatElapsed(Math.max(0, until_ms - now)),
      right: true,
    },
    { title: "ASKS", value: (ask: Listed) => askedLine(ask, ASKED_WIDTH), flexible: true },
  ];
}
