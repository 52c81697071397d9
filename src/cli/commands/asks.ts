/** `rnix asks`: lists the questions that wait for an answer. */

import type { Answers } from "../../server/methods/method-table.ts";
import { defineCommand } from "../command.ts";
import { json } from "../flags.ts";
import { refuseInsideRun, withWire } from "../io.ts";
import { printCatalog } from "../output/catalog.ts";
import { formatElapsed, printable } from "../output/format.ts";
import type { Column } from "../output/table.ts";
import { ASKED_CHARS, askedLine, isLong, timeLeft } from "../questions/question-text.ts";

type Listed = Answers["list_asks"]["asks"][number];

export default defineCommand({
  about: "List the questions of live and suspended runs that wait for your answer",
  lists: true,
  flags: { json },
  examples: {
    "rnix asks": "the questions of all projects, the oldest first",
    "rnix answer 1f3a9c02 yes": "answers one; a suspended run is resumed by it",
  },
  async run(io, flags) {
    await refuseInsideRun(io, "asks");
    return withWire(io, async (wire) => {
      const { asks } = await wire.request("list_asks", {});
      return printCatalog(io, asks, columns(Date.now()), { ...flags, empty: "no run waits for an answer" });
    });
  },
});

/** The whole call, up to a length that a list can hold. */
function askedText(ask: Listed): string {
  const rest = isLong(ask) ? ` (a part: rnix answer ${ask.request_id} shows all of it)` : "";
  return askedLine(ask, ASKED_CHARS) + rest;
}

function columns(now: number): Column<Listed>[] {
  return [
    { title: "ID", value: ({ request_id }) => request_id },
    { title: "PID", value: ({ pid }) => String(pid), right: true },
    { title: "AGENT", value: ({ agent }) => printable(agent) },
    { title: "STATE", value: ({ state }) => state },
    { title: "SINCE", value: ({ asked_at_ms }) => formatElapsed(now - asked_at_ms), right: true },
    { title: "LEFT", value: (ask) => timeLeft(ask, now) ?? "-", right: true },
    { title: "ASKS", value: askedText, flexible: 24, wrapped: true },
  ];
}
