/** `rnix top`: what runs now, in a window of the terminal. */

import { defineCommand } from "../command.ts";
import { bool, choice, json, text } from "../flags.ts";
import { noTerminal, refuseInsideRun } from "../io.ts";
import { ORDERS } from "../top/rows.ts";

export default defineCommand({
  about: "Watch all runs in the terminal, and act on them by keys",
  flags: {
    sort: choice(
      "by what the runs of a group are sorted, the largest first",
      ORDERS.map(([name]) => name),
    ),
    filter: text("only runs that have these words", "TEXT"),
    once: bool("print a table once; always so without a terminal, with TERM=dumb and with CI"),
    json,
  },
  examples: {
    "rnix top": "? lists the keys, q leaves it; the runs continue",
    "rnix top --sort cost --filter nightly": "what the nightly jobs cost",
    "rnix top --once": "the same as a table, for a pipe",
  },
  notes: [
    "It shows the runs of all projects, and the newest of those that have ended. It is for a person: inside a run it is refused.",
  ],
  async run(io, flags) {
    await refuseInsideRun(io, "top");
    const order = Math.max(
      0,
      ORDERS.findIndex(([name]) => name === flags.sort),
    );
    const by = {
      order,
      isReversed: false,
      isTree: true,
      filter: flags.filter ?? "",
      folded: new Set<string>(),
    };
    if (flags.once || flags.json || noTerminal(io) !== undefined) {
      const { printTop } = await import("../top/plain.ts");
      return printTop(io, flags, by);
    }
    const { runTop } = await import("../top/top.ts");
    return runTop(io, by);
  },
});
