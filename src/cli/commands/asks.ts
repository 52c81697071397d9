/** `rnix asks`: lists the questions that wait for an answer. */

import type { Answers } from "../../server/methods/method-table.ts";
import { defineCommand } from "../command.ts";
import { json } from "../flags.ts";
import { refuseInsideRun, withWire } from "../io.ts";
import { formatElapsed, printable } from "../output/format.ts";
import { print } from "../output/print.ts";
import { table } from "../output/table.ts";
import { ASKED_CHARS, askedLine, isLong, timeLeft } from "../questions/question-text.ts";

type Listed = Answers["list_asks"]["asks"][number];

export default defineCommand({
  about: "List the questions of live and suspended runs that wait for your answer",
  lists: true,
  flags: { json },
  examples: [
    { line: "rnix asks", about: "the questions of all projects, the oldest first" },
    { line: "rnix answer 1f3a9c02 yes", about: "answers one; a suspended run is resumed by it" },
  ],
  async run(io, flags) {
    await refuseInsideRun(io, "asks");
    return withWire(io, async (wire) => {
      const { asks } = await wire.request("list_asks", {});
      if (asks.length === 0 && !flags.json) io.stderr.write("no run waits for an answer\n");
      return print(io, flags, asks, (style) =>
        asks.length === 0 ? "" : table(asks, columns(Date.now()), io.stdout, style),
      );
    });
  },
});

/** The whole call, up to a length that a list can hold. */
function askedText(ask: Listed): string {
  const rest = isLong(ask) ? ` (a part: rnix answer ${ask.request_id} shows all of it)` : "";
  return askedLine(ask, ASKED_CHARS) + rest;
}

function columns(now: number) {
  return [
    { title: "ID", value: ({ request_id }: Listed) => request_id },
    { title: "PID", value: ({ pid }: Listed) => String(pid), right: true },
    { title: "AGENT", value: ({ agent }: Listed) => printable(agent) },
    { title: "STATE", value: ({ state }: Listed) => state },
    { title: "SINCE", value: ({ asked_at_ms }: Listed) => formatElapsed(now - asked_at_ms), right: true },
    {
      title: "LEFT",
      value: (ask: Listed) => timeLeft(ask, now) ?? "-",
      right: true,
    },
    { title: "ASKS", value: askedText, flexible: 24, wrapped: true },
  ];
}
